//! Arrays and matrices.

use pgas_containers::array::Distribution;
use pgas_containers::{Array, DArray, Error};
use pgas_core::Rank;

use super::common::{Picky, everywhere, used};

const SEGMENT: u64 = 4 << 20;

#[test]
fn a_first_value_that_one_rank_cannot_encode_makes_an_array_on_none() {
    everywhere(3, SEGMENT, |world| {
        for bad in 0..3 {
            let before = used(&world);
            let is_bad = world.rank() == Rank::new(bad);
            let initial = Picky::long(if is_bad { "!w" } else { "text" });
            let errors = [
                Array::new(&world, Rank::new(1), 10, &initial).unwrap_err(),
                DArray::new(&world, 10, Distribution::Cyclic, &initial).unwrap_err(),
            ];
            for error in errors {
                match error {
                    Error::Codec(_) => assert!(is_bad),
                    Error::Elsewhere(there) => {
                        assert!(!is_bad && there.rank == Rank::new(bad));
                        assert!(there.cause.contains("never written"), "{there}");
                    }
                    other => panic!("{other}"),
                }
            }
            assert_eq!(used(&world), before);
        }
    });
}

#[test]
fn a_host_without_room_is_named_on_every_rank() {
    everywhere(2, SEGMENT, |world| {
        let before = used(&world);
        let error = Array::<u64>::new(&world, Rank::new(1), 1 << 20, &1).unwrap_err();
        if world.rank() == Rank::new(1) {
            assert!(matches!(error, Error::Exhausted(_)));
        } else {
            assert!(error.to_string().contains("failed on rank 1"), "{error}");
        }
        assert_eq!(used(&world), before);
    });
}

#[test]
fn an_element_keeps_its_value_when_another_one_is_refused() {
    everywhere(2, SEGMENT, |world| {
        let array = DArray::new(&world, 4, Distribution::Cyclic, &Picky::of("old")).unwrap();
        let before = used(&world);
        for i in 0..4 {
            array.put(i, &Picky::long("!w")).unwrap_err();
            assert_eq!(array.get(i).unwrap(), Picky::of("old"));
        }
        assert_eq!(used(&world), before);
    });
}
