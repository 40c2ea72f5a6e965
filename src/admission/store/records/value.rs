//! Columns: how a field is kept, and how it is read back or not (rule P9).

use crate::admission::model::{
    AgentId, Bytes, CommandKind, CommandSeq, CommandState, Epoch, HostId, HostTargetKey, JournalStep, OutcomeCode,
    PrincipalName, ProtocolMode, RequestKey, Revision, RuntimeSessionId, SessionId, Sha256, Tenant, Timestamp,
};

/// A stored value. The order is that of both databases for the types that are ever compared: integers, text by bytes,
/// blobs by bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

/// A column's type in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sql {
    Int,
    Text,
    Blob,
}

/// A field that is a column.
pub(crate) trait Column: Sized {
    const SQL: Sql;
    const NULLABLE: bool = false;

    fn to_value(&self) -> Value;

    /// `None` for what no build like this one writes.
    fn of_value(value: &Value) -> Option<Self>;
}

impl<T: Column> Column for Option<T> {
    const SQL: Sql = T::SQL;
    const NULLABLE: bool = true;

    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_value)
    }

    fn of_value(value: &Value) -> Option<Self> {
        if *value == Value::Null { Some(None) } else { T::of_value(value).map(Some) }
    }
}

macro_rules! integer {
    ($($type:ty: $wrap:expr, $unwrap:expr;)+) => {
        $(impl Column for $type {
            const SQL: Sql = Sql::Int;

            fn to_value(&self) -> Value {
                let number: u64 = $unwrap(self);
                // Nothing that is counted or timed here reaches 2^63.
                Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
            }

            fn of_value(value: &Value) -> Option<Self> {
                if let Value::Int(number) = value { u64::try_from(*number).ok().and_then($wrap) } else { None }
            }
        })+
    };
}

integer! {
    u64: Some, |number: &u64| *number;
    u32: |number| u32::try_from(number).ok(), |number: &u32| u64::from(*number);
    bool: |number| (number < 2).then_some(number == 1), |flag: &bool| u64::from(*flag);
    Timestamp: |ms| Some(Timestamp(ms)), |at: &Timestamp| at.0;
    Epoch: |number| Some(Epoch(number)), |epoch: &Epoch| epoch.0;
    Revision: |number| Some(Revision(number)), |revision: &Revision| revision.0;
    CommandSeq: |number| Some(CommandSeq(number)), |seq: &CommandSeq| seq.0;
}

macro_rules! text {
    ($($type:ty: $read:expr;)+) => {
        $(impl Column for $type {
            const SQL: Sql = Sql::Text;

            fn to_value(&self) -> Value {
                Value::Text(self.as_str().to_owned())
            }

            fn of_value(value: &Value) -> Option<Self> {
                if let Value::Text(text) = value { $read(text.as_str()) } else { None }
            }
        })+
    };
}

text! {
    String: |text: &str| Some(text.to_owned());
    Tenant: |text| Tenant::new(text).ok();
    PrincipalName: |text| PrincipalName::new(text).ok();
    HostId: |text| HostId::new(text).ok();
    HostTargetKey: |text| HostTargetKey::new(text).ok();
    AgentId: |text| AgentId::new(text).ok();
    RequestKey: |text| RequestKey::new(text).ok();
    OutcomeCode: |text| OutcomeCode::new(text).ok();
    ProtocolMode: ProtocolMode::parse;
    CommandKind: CommandKind::parse;
    JournalStep: JournalStep::parse;
    CommandState: |text| Some(CommandState::read(text));
}

macro_rules! blob {
    ($($type:ty: $write:expr, $read:expr;)+) => {
        $(impl Column for $type {
            const SQL: Sql = Sql::Blob;

            fn to_value(&self) -> Value {
                Value::Blob($write(self))
            }

            fn of_value(value: &Value) -> Option<Self> {
                if let Value::Blob(bytes) = value { $read(bytes.as_slice()) } else { None }
            }
        })+
    };
}

fn id(bytes: &[u8]) -> Option<u128> {
    <[u8; 16]>::try_from(bytes).ok().map(u128::from_be_bytes)
}

blob! {
    SessionId: |id: &SessionId| id.0.to_be_bytes().to_vec(), |bytes| id(bytes).map(SessionId);
    RuntimeSessionId: |id: &RuntimeSessionId| id.0.to_be_bytes().to_vec(), |bytes| id(bytes).map(RuntimeSessionId);
    Sha256: |digest: &Sha256| digest.0.to_vec(), |bytes: &[u8]| bytes.try_into().ok().map(Sha256);
    Bytes: |bytes: &Bytes| bytes.to_vec(), |bytes: &[u8]| Some(Bytes::copy_from_slice(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adm_p9_what_makes_no_sense_is_not_guessed() {
        assert_eq!(u64::of_value(&Value::Int(-1)), None);
        assert_eq!(bool::of_value(&Value::Int(2)), None);
        assert_eq!(u32::of_value(&Value::Int(1 << 32)), None);
        assert_eq!(Tenant::of_value(&Value::Text(String::new())), None);
        assert_eq!(SessionId::of_value(&Value::Blob(vec![0; 15])), None);
        assert_eq!(CommandKind::of_value(&Value::Text("dance".into())), None);
        assert_eq!(Timestamp::of_value(&Value::Null), None);
        assert_eq!(Option::<Timestamp>::of_value(&Value::Null), Some(None));
    }
}
