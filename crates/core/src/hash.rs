//! A fixed hash: the same on every machine and in every version, so names and modelled prices never move.

/// Hashes some texts; where one ends and the next begins matters.
pub fn stable(parts: &[&str]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let separated = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    mix(separated.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)))
}

/// Spreads every bit of the input over the whole output.
pub fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_never_moves_and_sees_where_parts_end() {
        assert_eq!(stable(&["m7i", "us-east-1a"]), stable(&["m7i", "us-east-1a"]));
        assert_ne!(stable(&["ab", "c"]), stable(&["a", "bc"]));
        // Changing this value changes every modelled price and every KWOK node name.
        assert_eq!(stable(&["headstart"]), 16_942_113_940_151_591_539);
    }
}
