//! Pickles that mean harm, or nothing.

use std::iter::repeat_n;

use super::make::{
    call, dict, global, int, ints, open, refused, storage, tensor, tensor_of, text, tuple, with_pickle,
};

/// A pickle that ends with what `instructions` leave on the stack.
fn root(instructions: &[u8]) -> Vec<u8> {
    with_pickle(&[instructions, b"."].concat())
}

#[test]
fn the_makers_make_files_that_are_read() {
    let file = open(&with_pickle(&dict(&[("w", tensor(4, 0, &[2, 2], &[2, 1]))]))).unwrap();
    assert_eq!(file.read_f32("w").unwrap(), [0.0; 4]);
}

#[test]
fn a_call_is_a_name_and_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("witness");
    let command = text(&format!("touch {}", witness.display()));
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("__builtin__", "exec"),
    ] {
        let bomb = call(module, name, std::slice::from_ref(&command));
        let class = format!("`{module}.{name}`");
        assert!(refused(&root(&bomb)).contains(&class));
        assert!(refused(&with_pickle(&dict(&[("state_dict", bomb.clone())]))).contains(&class));
        // Where no tensor is wanted it does no harm; where one is, the class is named.
        let entries = [("w", tensor(4, 0, &[4], &[1])), ("bomb", bomb)];
        let file = open(&with_pickle(&dict(&entries))).unwrap();
        assert_eq!(file.read_f32("w").unwrap(), [0.0; 4]);
        assert!(file.read_f32("bomb").unwrap_err().to_string().contains(&class));
    }
    assert!(!witness.exists());
}

#[test]
fn a_class_from_the_stack_is_a_name_too() {
    // Texts for module and name, then the instruction that makes them a class, then each that makes an object.
    let class = [text("os"), text("system"), vec![0x93]].concat();
    let no_arguments = b")".to_vec();
    for object in [
        [class.clone(), no_arguments.clone(), b"R".to_vec()].concat(),
        [class.clone(), no_arguments.clone(), vec![0x81]].concat(),
        [class.clone(), no_arguments, b"}\x92".to_vec()].concat(),
        [b"(".to_vec(), class.clone(), b"o".to_vec()].concat(),
        b"(ios\nsystem\n".to_vec(),
        class,
    ] {
        let filled = [&object[..], b"}b"].concat();
        for object in [object, filled] {
            assert!(refused(&root(&object)).contains("`os.system`"));
        }
    }
}

#[test]
fn a_million_levels_are_no_deeper_than_one() {
    const LEVELS: usize = 1_000_000;
    let nested: [Vec<u8>; 3] = [
        repeat_n(b'(', LEVELS).chain(repeat_n(b't', LEVELS)).collect(),
        b")".iter().copied().chain(repeat_n(0x85, LEVELS)).collect(),
        repeat_n(b']', LEVELS).chain(repeat_n(b'a', LEVELS - 1)).collect(),
    ];
    for nested in nested {
        assert!(refused(&root(&nested)).contains("not supported"));
        let entries = [("w", tensor(4, 0, &[4], &[1])), ("deep", nested)];
        assert!(open(&with_pickle(&dict(&entries))).is_ok());
    }
}

#[test]
fn what_is_doubled_again_and_again_stays_one_value() {
    // Each level is a tuple of twice the level before: as a tree it would have 2^200000 leaves.
    let doubled: Vec<u8> = b")"
        .iter()
        .chain(b"2\x86".iter().cycle().take(2 * 200_000))
        .copied()
        .collect();
    let entries = [("w", tensor(4, 0, &[4], &[1])), ("wide", doubled)];
    assert!(open(&with_pickle(&dict(&entries))).is_ok());
    // A list that takes itself in, over and over.
    let growing: Vec<u8> = b"]"
        .iter()
        .chain(b"2a".iter().cycle().take(2 * 200_000))
        .copied()
        .collect();
    let entries = [("w", tensor(4, 0, &[4], &[1])), ("self", growing)];
    assert!(open(&with_pickle(&dict(&entries))).is_ok());
}

#[test]
fn a_list_is_not_copied_without_end() {
    // A long list of pairs, and then one dictionary after the other that is made of it.
    let pairs: Vec<u8> = b"]("
        .iter()
        .chain(b"N\x89\x86".iter().cycle().take(300_000))
        .copied()
        .collect();
    let mut pickle = [&pairs[..], b"eq\x000"].concat();
    for _ in 0..1000 {
        pickle.extend([&global("collections", "OrderedDict")[..], b"h\x00\x85R0"].concat());
    }
    assert!(refused(&root(&pickle)).contains("more than 16777216 instructions"));
}

#[test]
fn limits_hold() {
    let many: Vec<u8> = repeat_n(b'N', 2_200_000).collect();
    assert!(refused(&root(&many)).contains("more than 2097152 values"));
    let copies: Vec<u8> = b"N".iter().copied().chain(repeat_n(b'2', 2_200_000)).collect();
    assert!(refused(&root(&copies)).contains("more than 2097152 values on its stack"));
    let marks: Vec<u8> = repeat_n(b'(', 2_200_000).collect();
    assert!(refused(&root(&marks)).contains("more than 2097152 marks"));
    let memo: Vec<u8> = b"N".iter().copied().chain(repeat_n(0x94, 2_200_000)).collect();
    assert!(refused(&root(&memo)).contains("more than 2097152 entries in its memo"));
    let steps: Vec<u8> = b"N20".iter().copied().cycle().take(18_000_000).collect();
    assert!(refused(&root(&steps)).contains("more than"));
    let long = [&b"X"[..], &(65_u32 << 20).to_le_bytes(), &vec![b'x'; 65 << 20]].concat();
    assert!(refused(&root(&long)).contains("data.pkl"));
}

#[test]
fn lengths_that_lie_are_refused_before_memory_is_taken() {
    let huge = u64::MAX.to_le_bytes();
    let negative = (-1_i32).to_le_bytes();
    let most = i32::MAX.to_le_bytes();
    for (code, length) in [
        (b'X', &most[..]),
        (b'X', &negative[..]),
        (0x8d, &huge[..]),
        (0x8e, &huge[..]),
        (0x96, &huge[..]),
        (b'B', &negative[..]),
        (b'T', &most[..]),
        (0x8b, &most[..]),
        (0x8c, &[255][..]),
        (0x8a, &[255][..]),
    ] {
        let pickle = [&[code], length, b"xx"].concat();
        assert!(
            refused(&root(&pickle)).contains("ends in the middle"),
            "{code:#x}"
        );
    }
    for code in [b'T', 0x8b] {
        let pickle = [&[code], &negative[..], b"xx"].concat();
        assert!(refused(&root(&pickle)).contains("negative"), "{code:#x}");
    }
}

#[test]
fn integers_of_any_length_are_passed_over() {
    let huge = [&[0x8b][..], &1_000_000_u32.to_le_bytes(), &vec![0xff; 1_000_000]].concat();
    let digits = [b"L".to_vec(), vec![b'9'; 1_000_000], b"L\n".to_vec()].concat();
    for value in [huge, digits] {
        let entries = [("w", tensor(4, 0, &[4], &[1])), ("n", value)];
        let file = open(&with_pickle(&dict(&entries))).unwrap();
        assert_eq!(file.others()["n"], "an integer");
    }
}

#[test]
fn machines_that_stumble_say_where() {
    for pickle in [
        &b""[..],
        b"a",
        b"s",
        b"u",
        b"t",
        b"R",
        b"b",
        b"0",
        b"1",
        b"2",
        b"Q",
        b"NQ",
        b"h\x07",
        b"Na",
        b"]Na(Ns",
        b"](a",
        b"N(NNu",
        b"}(Nu",
        b"NN\x93",
        b"N)R",
        b"K\x01)R",
        b"(N\x86",
        b"\x85",
        b"Ix\n",
        b"gx\n",
        b"o",
        b"(o",
        b"\xff",
        b"P0\n",
        b"S'x'\n",
        b"\x82\x01",
        b"\x97",
        b"\x98",
    ] {
        let message = refused(&root(pickle));
        assert!(
            message.contains("of its pickle") || message.contains("ends in the middle"),
            "{pickle:?}: {message}"
        );
    }
}

#[test]
fn functions_that_are_known_take_only_what_they_take() {
    for (module, name) in [
        ("torch._utils", "_rebuild_tensor"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_tensor_v3"),
        ("torch._utils", "_rebuild_parameter"),
        ("torch._utils", "_rebuild_parameter_with_state"),
        ("torch._tensor", "_rebuild_from_type_v2"),
        ("torch", "Size"),
        ("collections", "OrderedDict"),
    ] {
        for count in 1..12 {
            if name == "Size" && count == 1 {
                continue;
            }
            let arguments = vec![int(1); count];
            assert!(
                refused(&root(&call(module, name, &arguments))).contains("of its pickle"),
                "{name} {count}"
            );
        }
        let no_tuple = [global(module, name), b"NR".to_vec()].concat();
        assert!(refused(&root(&no_tuple)).contains("arguments"), "{name}");
    }
}

#[test]
fn storages_that_are_described_badly_are_refused() {
    let described = |parts: &[Vec<u8>]| [tuple(parts), b"Q".to_vec()].concat();
    let class = global("torch", "FloatStorage");
    for bad in [
        storage("FloatStorage", "0", -4),
        storage("FloatStorage", &"0".repeat(1001), 4),
        described(&[]),
        described(&[text("storage")]),
        described(&[text("other"), class.clone(), text("0"), text("cpu"), int(4)]),
        described(&[text("storage"), int(1), text("0"), text("cpu"), int(4)]),
        described(&[text("storage"), class.clone(), int(0), text("cpu"), int(4)]),
        described(&[text("storage"), class.clone(), text("0"), text("cpu"), text("4")]),
        described(&[text("storage"), class, text("0"), text("cpu"), int(4), ints(&[1])]),
    ] {
        assert!(refused(&root(&bad)).contains("storage"), "{bad:?}");
    }
    // A class that is not known makes a tensor that is not.
    let unknown = tensor_of(storage("NewStorage", "0", 4), 0, ints(&[4]), ints(&[1]));
    let entries = [("w", tensor(4, 0, &[4], &[1])), ("v", unknown)];
    let file = open(&with_pickle(&dict(&entries))).unwrap();
    assert_eq!(file.others()["v"], "an object of class `torch.NewStorage`");
}

#[test]
fn views_beyond_their_storage_are_refused() {
    let most = i64::MAX;
    for (count, offset, shape, strides) in [
        (4, 0, &[5][..], &[1][..]),
        (4, 1, &[4], &[1]),
        (4, 4, &[1], &[1]),
        (4, 0, &[2, 2], &[3, 1]),
        (4, -1, &[1], &[1]),
        (4, 0, &[-1], &[1]),
        (4, 0, &[2], &[-1]),
        (4, 0, &[2, 2], &[1]),
        (4, 0, &[most, most], &[most, most]),
        (4, 0, &[most, most, most], &[0, 0, 0]),
        (4, most, &[4], &[1]),
        (4, 0, &[4], &[most]),
        (5, 0, &[4], &[1]),
        (3, 0, &[3], &[1]),
        (most, 0, &[4], &[1]),
        (most, most - 1, &[1], &[1]),
    ] {
        let message = refused(&with_pickle(&dict(&[(
            "w",
            tensor(count, offset, shape, strides),
        )])));
        assert!(message.contains("truncated or damaged PyTorch file"), "{message}");
    }
    let endless = vec![1; 2_000];
    let message = refused(&with_pickle(&dict(&[("w", tensor(4, 0, &endless, &endless))])));
    assert!(message.contains("dimensions"), "{message}");
    for shape in [int(4), text("4"), tuple(&[text("4")]), tuple(&[b"N".to_vec()])] {
        let odd = tensor_of(storage("FloatStorage", "0", 4), 0, shape, ints(&[1]));
        assert!(refused(&with_pickle(&dict(&[("w", odd)]))).contains("no counts"));
    }
}

#[test]
fn a_repeated_number_is_read_within_a_limit() {
    let entries = [("w", tensor(4, 1, &[1000, 3], &[0, 0]))];
    assert_eq!(
        open(&with_pickle(&dict(&entries)))
            .unwrap()
            .read_f32("w")
            .unwrap(),
        [0.0; 3000]
    );
    let entries = [("w", tensor(4, 1, &[1 << 20, 1 << 9], &[0, 0]))];
    assert!(refused(&with_pickle(&dict(&entries))).contains("too often"));
}

#[test]
fn containers_that_hold_themselves_are_no_state_dict() {
    // A dictionary that is its own `state_dict`, a list that is its own first part, and a tuple in a list in it.
    let own_part = [b"}q\x00".to_vec(), text("state_dict"), b"h\x00s".to_vec()].concat();
    for object in [&own_part[..], b"]q\x00h\x00a", b"]q\x00h\x00\x85a"] {
        assert!(refused(&root(object)).contains("not supported"));
    }
}

#[test]
fn a_name_that_is_there_twice_is_refused() {
    let entries = [("w", tensor(4, 0, &[4], &[1])), ("w", tensor(4, 0, &[2], &[1]))];
    assert!(refused(&with_pickle(&dict(&entries))).contains("`w` is there twice"));
    let entries = [("w", tensor(4, 0, &[4], &[1])), ("w", int(1))];
    assert!(refused(&with_pickle(&dict(&entries))).contains("`w` is there twice"));
}

#[test]
fn long_names_are_cut_in_messages() {
    let name = "n".repeat(1_000_000);
    let class = call(&name, &name, &[]);
    assert!(refused(&root(&class)).len() < 1_000);
    let entries = [(name.as_str(), tensor(4, 0, &[5], &[1]))];
    assert!(refused(&with_pickle(&dict(&entries))).len() < 1_000);
    let odd = tensor_of(
        storage("FloatStorage", &name[..1_000], 4),
        0,
        ints(&[4]),
        ints(&[1]),
    );
    let message = refused(&with_pickle(&dict(&[("w", odd)])));
    assert!(
        message.contains("is not there") && message.len() < 1_000,
        "{message}"
    );
}

#[test]
fn texts_of_the_oldest_protocol_are_read() {
    let mut pickle = b"(dp0\nVna\\u00efve \\U0001f415 \\ \\uZZ\np1\n".to_vec();
    pickle.extend(tensor(4, 0, &[4], &[1]));
    pickle.extend(b"sVcount\nI7\nsVfloat\nF1.5\nsVtrue\nI01\nsVlong\nL7L\nsVagain\ng1\ns.");
    let file = open(&with_pickle(&pickle)).unwrap();
    assert_eq!(file.tensors().keys().collect::<Vec<_>>(), ["naïve 🐕 \\ \\uZZ"]);
    let others: Vec<&str> = file.others().values().map(String::as_str).collect();
    assert_eq!(
        others,
        ["a text", "an integer", "a number", "an integer", "a truth value"]
    );
}

#[test]
fn an_ordered_dictionary_of_pairs_is_read_as_python_2_wrote_it() {
    let pair = tuple(&[text("w"), tensor(4, 0, &[4], &[1])]);
    let list = [b"](".to_vec(), pair, b"e".to_vec()].concat();
    let file = open(&root(&call("collections", "OrderedDict", &[list]))).unwrap();
    assert_eq!(file.tensors().len(), 1);
}
