//! Pictures in the format PNG.

use std::io::Read as _;

use flate2::read::ZlibDecoder;

/// A colour: red, green and blue.
pub(crate) type Colour = [u8; 3];

/// A picture.
pub(crate) struct Picture {
    width: usize,
    pixels: Vec<Colour>,
}

/// The pixels of a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Area {
    /// Their number.
    pub(crate) n: usize,
    /// Their mean distance from the left edge.
    pub(crate) mean_x: usize,
}

impl Picture {
    /// Decodes a picture of eight bits a channel, without interlacing, as browsers write it.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut rest = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n").unwrap();
        let mut header: &[u8] = &[];
        let mut packed = Vec::new();
        while let Some((head, tail)) = rest.split_at_checked(8) {
            let len = number(&head[..4]);
            match &head[4..] {
                b"IHDR" => header = &tail[..len],
                b"IDAT" => packed.extend_from_slice(&tail[..len]),
                _ => {}
            }
            // A checksum follows.
            rest = &tail[len + 4..];
        }
        let width = number(&header[..4]);
        let channels = match header[8..13] {
            [8, 2, 0, 0, 0] => 3,
            [8, 6, 0, 0, 0] => 4,
            ref other => panic!("another kind of PNG: {other:?}"),
        };
        let mut filtered = Vec::new();
        ZlibDecoder::new(&*packed)
            .read_to_end(&mut filtered)
            .unwrap();
        let row_bytes = width * channels;
        let mut pixels = Vec::new();
        let mut above = vec![0; row_bytes];
        for row in filtered.chunks_exact(row_bytes + 1) {
            above = unfiltered(row[0], &row[1..], &above, channels);
            pixels.extend(above.chunks_exact(channels).map(|c| [c[0], c[1], c[2]]));
        }
        assert_eq!(pixels.len(), width * number(&header[4..8]));
        Self { width, pixels }
    }

    /// The colour of the upper left corner.
    pub(crate) fn corner(&self) -> Colour {
        self.pixels[0]
    }

    pub(crate) fn area(&self, colour: Colour) -> Area {
        let all = self.pixels.iter().enumerate();
        let places = all
            .filter(|(_, pixel)| **pixel == colour)
            .map(|(i, _)| i % self.width);
        let (n, sum) = places.fold((0, 0), |(n, sum), x| (n + 1, sum + x));
        Area {
            n,
            mean_x: sum / n.max(1),
        }
    }
}

fn number(bytes: &[u8]) -> usize {
    let number = u32::from_be_bytes(bytes.try_into().unwrap());
    number.try_into().unwrap()
}

/// The bytes of a row that is given by its differences to its left and to the row above.
fn unfiltered(filter: u8, row: &[u8], above: &[u8], channels: usize) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(row.len());
    for (i, byte) in row.iter().enumerate() {
        let before = i.checked_sub(channels);
        let (left, corner) = before.map_or((0, 0), |at| (out[at], above[at]));
        let guess = match filter {
            0 => 0,
            1 => left,
            2 => above[i],
            3 => left.midpoint(above[i]),
            4 => nearest(left, above[i], corner),
            _ => panic!("filter {filter}"),
        };
        out.push(byte.wrapping_add(guess));
    }
    out
}

/// The neighbour that is nearest to `left + above - corner`.
fn nearest(left: u8, above: u8, corner: u8) -> u8 {
    let guess = i16::from(left) + i16::from(above) - i16::from(corner);
    let distance = |of: &u8| (guess - i16::from(*of)).abs();
    [left, above, corner]
        .into_iter()
        .min_by_key(distance)
        .unwrap()
}

#[test]
fn a_picture_with_every_filter_is_decoded() {
    use std::io::Write as _;

    // Rows of two pixels; what each filter makes of its neighbours.
    let rows: [[u8; 7]; 5] = [
        [0, 10, 20, 30, 40, 50, 60],
        [1, 1, 1, 1, 1, 1, 1],
        [2, 5, 5, 5, 5, 5, 5],
        [3, 0, 0, 0, 2, 2, 2],
        [4, 1, 1, 1, 1, 1, 1],
    ];
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(rows.as_flattened()).unwrap();
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let header = [0, 0, 0, 2, 0, 0, 0, 5, 8, 2, 0, 0, 0];
    for (name, content) in [(b"IHDR", &header[..]), (b"IDAT", &packed.finish().unwrap())] {
        png.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
        png.extend_from_slice(name);
        png.extend_from_slice(content);
        png.extend([0; 4]);
    }
    let picture = Picture::decode(&png);
    let expected = [
        [[10, 20, 30], [40, 50, 60]],
        [[1, 1, 1], [2, 2, 2]],
        [[6, 6, 6], [7, 7, 7]],
        // Half of above; then the mean of that and of above, and two.
        [[3, 3, 3], [7, 7, 7]],
        // One more than above; then one more than above, which is nearest to 4 + 7 - 3.
        [[4, 4, 4], [8, 8, 8]],
    ];
    assert_eq!(picture.pixels, expected.as_flattened());
    assert_eq!(picture.area([7, 7, 7]), Area { n: 2, mean_x: 1 });
}
