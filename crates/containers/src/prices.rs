//! The prices of the containers' operations, in one table.
//!
//! The documentation of each method states its price under `# Cost`, and the statistics
//! (`PGAS_STATS`) print it beside the price that was paid. Tests compare this table with the
//! operations and with the documentation, so all three say the same: also about the messages of
//! operations that travel to the rank that serves them.
//!
//! A batch has a row of its own, with the price of one element, unless the price does not depend on
//! the number of elements.

use pgas_core::stats::{Operation, Price};

const fn price(when: &'static str, atomics_reads_writes: [u64; 3]) -> Price {
    Price::new(when, atomics_reads_writes)
}

/// The price of a search that ends at the key's home slot, and A for each slot behind it; or M.
const fn searched(when: &'static str, atomics_reads_writes: [u64; 3]) -> Price {
    served(when, atomics_reads_writes).with_further_slots(1)
}

/// As [`price`]; or M.
const fn served(when: &'static str, atomics_reads_writes: [u64; 3]) -> Price {
    price(when, atomics_reads_writes).or_messages(1)
}

/// Declares operations, and the table of all of them. Where many elements travel in a message,
/// `many` follows.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $prices:expr, $missed:literal $(, $many:ident)?;)*) => {
        $(
            $(#[$doc])*
            pub static $name: Operation = Operation::new($text, $prices, $missed)$(.$many())?;
        )*

        /// All operations that have a price.
        pub static ALL: &[&Operation] = &[$(&$name),*];
    };
}

const INSERT: &[Price] = &[
    searched("new", [2, 0, 1]),
    searched("over a word", [2, 1, 0]),
    searched("over another value", [3, 1, 1]),
    searched("in a set", [1, 1, 0]),
];
const FIND: &[Price] = &[
    searched("present", [2, 1, 0]),
    searched("in a set", [1, 1, 0]),
    searched("absent", [1, 0, 0]),
];
const UPDATE: &[Price] = &[
    searched("a word", [3, 1, 0]).or_messages(2),
    searched("another value", [4, 1, 1]).or_messages(2),
    searched("absent", [1, 0, 0]),
];
const UPSERT: &[Price] = &[
    searched("a word", [3, 1, 0]),
    searched("another value", [4, 1, 1]),
    searched("new", [2, 0, 1]),
];
const REMOVE: &[Price] = &[
    searched("present", [2, 1, 0]),
    searched("absent", [1, 0, 0]),
];
const R: &[Price] = &[price("", [0, 1, 0])];
const W: &[Price] = &[price("", [0, 0, 1])];
const LOCAL: &[Price] = &[price("", [0, 0, 0])];
const R_OR_M: &[Price] = &[served("", [0, 1, 0])];
const W_OR_M: &[Price] = &[served("", [0, 0, 1])];
const A_OR_M: &[Price] = &[served("", [1, 0, 0])];
const GET: &[Price] = &[price("plain", [0, 1, 0]), price("others", [2, 1, 0])];
const PUT: &[Price] = &[price("plain", [0, 0, 1]), price("others", [3, 1, 1])];

operations! {
    /// [`HashMap::insert`](crate::HashMap::insert).
    HASH_MAP_INSERT = "HashMap::insert", INSERT, "new";
    /// [`HashMap::insert_many`](crate::HashMap::insert_many).
    HASH_MAP_INSERT_MANY = "HashMap::insert_many", INSERT, "new", for_many;
    /// [`HashMap::find`](crate::HashMap::find) in a phase in which any rank writes.
    HASH_MAP_FIND = "HashMap::find", FIND, "absent";
    /// [`HashMap::find_many`](crate::HashMap::find_many) in a phase in which any rank writes.
    HASH_MAP_FIND_MANY = "HashMap::find_many", FIND, "absent", for_many;
    /// [`HashMap::find`](crate::HashMap::find) in the find phase.
    HASH_MAP_FIND_ONLY = "HashMap::find (find phase)", R_OR_M, "absent";
    /// [`HashMap::find_many`](crate::HashMap::find_many) in the find phase.
    HASH_MAP_FIND_ONLY_MANY = "HashMap::find_many (find phase)", R_OR_M, "absent", for_many;
    /// [`HashMap::contains`](crate::HashMap::contains) in a phase in which any rank writes.
    HASH_MAP_CONTAINS = "HashMap::contains",
        &[searched("present", [1, 1, 0]), searched("absent", [1, 0, 0])], "absent";
    /// [`HashMap::contains`](crate::HashMap::contains) in the find phase.
    HASH_MAP_CONTAINS_ONLY = "HashMap::contains (find phase)", R_OR_M, "absent";
    /// [`HashMap::fetch_add`](crate::HashMap::fetch_add).
    HASH_MAP_FETCH_ADD = "HashMap::fetch_add",
        &[searched("present", [2, 1, 0]), searched("new", [2, 0, 1])], "new";
    /// [`HashMap::add_many`](crate::HashMap::add_many).
    HASH_MAP_ADD_MANY = "HashMap::add_many",
        &[searched("present", [2, 1, 0]), searched("new", [2, 0, 1])], "new", for_many;
    /// [`HashMap::get_or_insert`](crate::HashMap::get_or_insert).
    HASH_MAP_GET_OR_INSERT = "HashMap::get_or_insert", &[
        searched("new", [2, 0, 1]),
        searched("present", [2, 1, 0]),
        searched("in a set", [1, 1, 0]),
    ], "new";
    /// [`HashMap::update`](crate::HashMap::update), a part of an upsert, too.
    HASH_MAP_UPDATE = "HashMap::update", UPDATE, "absent";
    /// [`HashMap::upsert_many`](crate::HashMap::upsert_many).
    HASH_MAP_UPSERT_MANY = "HashMap::upsert_many", UPSERT, "new", for_many;
    /// [`HashMap::remove`](crate::HashMap::remove).
    HASH_MAP_REMOVE = "HashMap::remove", REMOVE, "absent";
    /// [`HashMap::remove_many`](crate::HashMap::remove_many).
    HASH_MAP_REMOVE_MANY = "HashMap::remove_many", REMOVE, "absent", for_many;
    /// [`HashMap::take`](crate::HashMap::take).
    HASH_MAP_TAKE = "HashMap::take", &[
        searched("present", [3, 1, 0]),
        searched("in a set", [2, 1, 0]),
        searched("absent", [1, 0, 0]),
    ], "absent";
    /// [`MultiMap::extend`](crate::MultiMap::extend).
    MULTI_MAP_EXTEND = "MultiMap::extend",
        &[served("first", [6, 1, 2]), served("further", [6, 2, 1])], "", for_many;
    /// `push` of a queue while others pop.
    QUEUE_PUSH = "Queue::push (push and pop)",
        &[served("", [2, 0, 1]), served("full", [2, 0, 0])], "met a full queue";
    /// `push` of a queue in the push phase.
    QUEUE_PUSH_ONLY = "Queue::push (push phase)",
        &[served("", [1, 0, 1]), served("full", [0, 0, 0])], "met a full queue";
    /// `push_slice` of a queue while others pop, however many elements.
    QUEUE_PUSH_SLICE = "Queue::push_slice (push and pop)",
        &[served("", [2, 0, 1]), served("full", [2, 0, 0])], "met a full queue";
    /// `push_slice` of a queue in the push phase, however many elements.
    QUEUE_PUSH_SLICE_ONLY = "Queue::push_slice (push phase)",
        &[served("", [1, 0, 1]), served("full", [0, 0, 0])], "met a full queue";
    /// `pop` of a queue while others push.
    QUEUE_POP = "Queue::pop (push and pop)",
        &[served("", [2, 1, 0]), served("empty", [2, 0, 0])], "met an empty queue";
    /// `pop` of a queue in the pop phase.
    QUEUE_POP_ONLY = "Queue::pop (pop phase)",
        &[served("", [1, 1, 0]), served("empty", [0, 0, 0])], "met an empty queue";
    /// `pop_many` of a queue while others push, however many elements.
    QUEUE_POP_MANY = "Queue::pop_many (push and pop)", &[
        served("", [2, 1, 0]),
        served("after pushes", [4, 1, 0]),
        served("empty", [3, 0, 0]),
    ], "met an empty queue";
    /// `pop_many` of a queue in the pop phase, however many elements.
    QUEUE_POP_MANY_ONLY = "Queue::pop_many (pop phase)",
        &[served("", [1, 1, 0]), served("empty", [0, 0, 0])], "met an empty queue";
    /// `local_push` of a queue in the local phase.
    QUEUE_LOCAL_PUSH = "Queue::local_push", LOCAL, "met a full queue";
    /// `local_pop` of a queue in the local phase.
    QUEUE_LOCAL_POP = "Queue::local_pop", LOCAL, "met an empty queue";
    /// [`BloomFilter::insert`](crate::BloomFilter::insert).
    BLOOM_FILTER_INSERT = "BloomFilter::insert", A_OR_M, "seemed present";
    /// [`BloomFilter::insert_many`](crate::BloomFilter::insert_many).
    BLOOM_FILTER_INSERT_MANY = "BloomFilter::insert_many", A_OR_M, "seemed present", for_many;
    /// [`BloomFilter::contains`](crate::BloomFilter::contains).
    BLOOM_FILTER_CONTAINS = "BloomFilter::contains", R, "absent";
    /// [`BloomFilter::contains_many`](crate::BloomFilter::contains_many).
    BLOOM_FILTER_CONTAINS_MANY = "BloomFilter::contains_many", R_OR_M, "absent", for_many;
    /// [`Array::get`](crate::Array::get).
    ARRAY_GET = "Array::get", GET, "";
    /// [`Array::put`](crate::Array::put).
    ARRAY_PUT = "Array::put", PUT, "";
    /// [`Array::get_many`](crate::Array::get_many).
    ARRAY_GET_MANY = "Array::get_many", R_OR_M, "", for_many;
    /// [`Array::put_many`](crate::Array::put_many).
    ARRAY_PUT_MANY = "Array::put_many", W_OR_M, "", for_many;
    /// [`Array::get_range`](crate::Array::get_range), however many elements.
    ARRAY_GET_RANGE = "Array::get_range", R, "";
    /// [`Array::put_slice`](crate::Array::put_slice), however many elements.
    ARRAY_PUT_SLICE = "Array::put_slice", W, "";
    /// [`Array::add_many`](crate::Array::add_many).
    ARRAY_ADD_MANY = "Array::add_many", A_OR_M, "", for_many;
    /// [`DArray::get`](crate::DArray::get).
    DARRAY_GET = "DArray::get", GET, "";
    /// [`DArray::put`](crate::DArray::put).
    DARRAY_PUT = "DArray::put", PUT, "";
    /// [`DArray::get_many`](crate::DArray::get_many).
    DARRAY_GET_MANY = "DArray::get_many", R_OR_M, "", for_many;
    /// [`DArray::put_many`](crate::DArray::put_many).
    DARRAY_PUT_MANY = "DArray::put_many", W_OR_M, "", for_many;
    /// [`DArray::get_range`](crate::DArray::get_range), counted for each rank that holds some of
    /// the elements.
    DARRAY_GET_RANGE = "DArray::get_range", R, "";
    /// [`DArray::put_slice`](crate::DArray::put_slice), counted as
    /// [`DArray::get_range`](crate::DArray::get_range).
    DARRAY_PUT_SLICE = "DArray::put_slice", W, "";
    /// [`DArray::add_many`](crate::DArray::add_many).
    DARRAY_ADD_MANY = "DArray::add_many", A_OR_M, "", for_many;
    /// [`DMatrix::get`](crate::DMatrix::get).
    DMATRIX_GET = "DMatrix::get", R, "";
    /// [`DMatrix::put`](crate::DMatrix::put).
    DMATRIX_PUT = "DMatrix::put", W, "";
}
