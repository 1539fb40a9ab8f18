use super::*;

#[test]
fn tags_read_back() {
    for (kind, _) in Operation::ALL {
        let token = Token::new(KIND_ONE as u32 - 1, u32::MAX - 1);
        assert_eq!(untag(tag(kind, token)), (kind, token));
    }
}
