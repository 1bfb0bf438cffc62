//! Memory as an option asks for it, which may be more than there is.

/// Memory for `n` elements.
pub(crate) fn reserved<T>(n: usize, option: &str) -> pgas::Result<Vec<T>> {
    let mut memory = Vec::new();
    let told = |why| pgas::Error::Argument(format!("{option} {n}: {why}").into());
    memory.try_reserve_exact(n).map_err(told)?;
    Ok(memory)
}
