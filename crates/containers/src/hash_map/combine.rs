//! Combines two values of a key.

/// How the value that a key has and one that is given become the key's new value: for operations
/// that another rank may carry out, which gets the type's name and nothing else.
///
/// # Examples
///
/// ```
/// use pgas_containers::hash_map::Combine;
///
/// /// One list behind the other.
/// enum Append {}
/// impl Combine<Vec<u32>> for Append {
///     fn combine(mut there: Vec<u32>, given: &Vec<u32>) -> Vec<u32> {
///         there.extend(given);
///         there
///     }
/// }
/// assert_eq!(Append::combine(vec![1], &vec![2, 3]), [1, 2, 3]);
/// ```
pub trait Combine<V>: 'static {
    /// The new value. It may be called again with another value that is there, and changes nothing
    /// but what it returns; it may run in a handler of another rank, where nothing waits.
    fn combine(there: V, given: &V) -> V;
}
