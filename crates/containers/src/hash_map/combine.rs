//! Functions that combine two values of a key, named by types.

/// A function that makes a key's new value of the present value and a given one. It is a type, not
/// a closure, since another rank may call it: the type's name travels, captured values would not.
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
    /// The new value. This may be called again if another rank changed the present value, so it
    /// has no side effects. It may run in a handler of another rank, so it must not wait.
    fn combine(there: V, given: &V) -> V;
}
