//! A principal that has proved itself on a connection: while it sends the same token there, the token need not be verified
//! again, which costs from about a microsecond (a guest's) to some fifty (elliptic curves).

use super::{Good, Now};
use crate::domain::TenantId;
use crate::service::Caller;
use subtle::ConstantTimeEq;

/// The last token that was good on a connection, and for whom.
pub(in crate::edge::http) struct Proven {
    token: Box<[u8]>,
    tenant: TenantId,
    caller: Caller,
    good: Good,
}

impl Proven {
    /// `caller` has sent `token` to a path of `tenant`, which is its own.
    pub(in crate::edge::http) fn new(token: &str, tenant: TenantId, caller: Caller, good: Good) -> Self {
        Self { token: token.as_bytes().into(), tenant, caller, good }
    }

    /// Who sends this token, if it is the same and still good. Compared in constant time: a proxy may have mixed clients on
    /// one connection.
    pub(in crate::edge::http) fn caller(&self, token: &str, tenant: TenantId, now: Now) -> Option<Caller> {
        let is_same: bool = self.token.ct_eq(token.as_bytes()).into();
        (is_same && self.tenant == tenant && self.good.at(now)).then_some(self.caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{MonoTime, Principal, PrincipalKey, WallTime};
    use crate::edge::http::auth::jwt::ValidTime;

    const TENANT: TenantId = TenantId(1);
    const CALLER: Caller = Caller { principal: Principal { tenant: TENANT, key: PrincipalKey(7) }, guest_source: None };

    fn at(mono: u64, wall: u64) -> Now {
        Now { mono: MonoTime(mono), wall: WallTime(wall) }
    }

    #[test]
    fn the_same_token_is_good_until_its_end_by_its_own_clock() {
        let guest = Proven::new("t", TENANT, CALLER, Good::Guest(MonoTime(100)));
        assert_eq!(guest.caller("t", TENANT, at(99, 1_000)), Some(CALLER));
        assert_eq!(guest.caller("t", TENANT, at(100, 0)), None);
        let jwt = Proven::new("t", TENANT, CALLER, Good::Jwt(ValidTime::until(WallTime(100))));
        assert_eq!(jwt.caller("t", TENANT, at(1_000, 99)), Some(CALLER));
        assert_eq!(jwt.caller("t", TENANT, at(0, 100)), None);
    }

    #[test]
    fn another_token_or_tenant_proves_nothing() {
        let proven = Proven::new("token", TENANT, CALLER, Good::Guest(MonoTime(100)));
        for other in ["", "toke", "tokem", "tokens", "Token"] {
            assert_eq!(proven.caller(other, TENANT, at(0, 0)), None, "{other}");
        }
        assert_eq!(proven.caller("token", TenantId(2), at(0, 0)), None);
    }
}
