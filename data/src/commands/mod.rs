//! The commands: one file each, one shape, and the table of all.
//!
//! A command is a struct of its parsed arguments. `parse` refuses what is wrong with the arguments alone, before the
//! command goes to the log; `apply` or `read` does the rest. To add one: write its file and add its line to the table.

pub mod bitmap;
pub mod dictum;
pub(crate) mod elements;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod json;
pub mod key;
pub mod list;
pub mod options;
pub(crate) mod prelude;
pub mod scripting;
pub mod server;
pub mod set;
pub mod sorted;
pub mod stream;
pub mod string;
pub(crate) mod subcommand;

use crate::args::Args;
use crate::failure::Failure;
use crate::reply::Reply;
use crate::spec::Spec;
use crate::transaction::Transaction;
use crate::view::View;
use base::limits::KEY_BYTES_MAX;
use base::versions::Feature;

/// A command that may change keys: it goes through the log.
pub trait WriteCommand<'a>: Sized {
    /// What is known of it.
    const SPEC: Spec;
    /// Reads the arguments. Their number fits the arity already.
    fn parse(args: Args<'a>) -> Result<Self, Failure>;
    /// Carries the command out. On failure, nothing has changed.
    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure>;
}

/// A command that only looks.
pub trait ReadCommand<'a>: Sized {
    /// What is known of it.
    const SPEC: Spec;
    /// Reads the arguments. Their number fits the arity already.
    fn parse(args: Args<'a>) -> Result<Self, Failure>;
    /// Answers.
    fn read(self, view: &View<'_>) -> Result<Reply, Failure>;
}

/// A command of the table.
#[derive(Debug)]
pub struct Entry {
    /// What is known of it.
    pub spec: &'static Spec,
    /// Whether the arguments can be read; their number is not looked at.
    pub parse_check: for<'a> fn(Args<'a>) -> Result<(), Failure>,
    /// Parses and carries out.
    pub run: Run,
}

/// How a command is carried out.
#[derive(Debug)]
pub enum Run {
    /// On a view.
    Read(for<'a, 'b, 'c> fn(&'a View<'b>, Args<'c>) -> Result<Reply, Failure>),
    /// In an entry.
    Write(for<'a, 'b, 'c> fn(&'a mut Transaction<'b>, Args<'c>) -> Result<Reply, Failure>),
}

impl Entry {
    /// Whether the command must go through the log.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.run, Run::Write(_))
    }
}

macro_rules! write {
    ($($path:ident)::+) => {
        Entry {
            spec: &<$($path)::+ as WriteCommand>::SPEC,
            parse_check: |args| <$($path)::+ as WriteCommand>::parse(args).map(drop),
            run: Run::Write(|tx, args| <$($path)::+ as WriteCommand>::parse(args)?.apply(tx)),
        }
    };
}

macro_rules! read {
    ($($path:ident)::+) => {
        Entry {
            spec: &<$($path)::+ as ReadCommand>::SPEC,
            parse_check: |args| <$($path)::+ as ReadCommand>::parse(args).map(drop),
            run: Run::Read(|view, args| <$($path)::+ as ReadCommand>::parse(args)?.read(view)),
        }
    };
}

/// Every command that works on keys, one a line. The order is of no meaning.
#[rustfmt::skip]
pub static COMMANDS: &[Entry] = &[
    // Strings.
    write!(string::append::Append),
    write!(string::incr::Decr),
    write!(string::incr::DecrBy),
    write!(string::delex::DelEx),
    read!(string::get::Get),
    write!(string::getdel::GetDel),
    write!(string::getex::GetEx),
    read!(string::getrange::GetRange),
    write!(string::getset::GetSet),
    write!(string::incr::Incr),
    write!(string::incr::IncrBy),
    write!(string::incrbyfloat::IncrByFloat),
    read!(string::mget::MGet),
    write!(string::mset::MSet),
    write!(string::msetex::MSetEx),
    write!(string::mset::MSetNx),
    write!(string::setex::PSetEx),
    write!(string::set::Set),
    write!(string::setex::SetEx),
    write!(string::setnx::SetNx),
    write!(string::setrange::SetRange),
    read!(string::strlen::StrLen),
    read!(string::getrange::SubStr),
    read!(string::lcs::Lcs),
    read!(string::digest::Digest),
    // Hashes.
    write!(hash::hset::HSet),
    write!(hash::hset::HMSet),
    write!(hash::hset::HSetNx),
    read!(hash::hget::HGet),
    read!(hash::hget::HMGet),
    read!(hash::hget::HExists),
    read!(hash::hget::HStrLen),
    read!(hash::hgetall::HGetAll),
    read!(hash::hgetall::HKeys),
    read!(hash::hgetall::HVals),
    read!(hash::hlen::HLen),
    write!(hash::hdel::HDel),
    write!(hash::hgetdel::HGetDel),
    write!(hash::hincrby::HIncrBy),
    write!(hash::hincrbyfloat::HIncrByFloat),
    read!(hash::hrandfield::HRandField),
    read!(hash::hscan::HScan),
    write!(hash::hexpire::HExpire),
    write!(hash::hexpire::HPExpire),
    write!(hash::hexpire::HExpireAt),
    write!(hash::hexpire::HPExpireAt),
    read!(hash::httl::HTtl),
    read!(hash::httl::HPTtl),
    read!(hash::httl::HExpireTime),
    read!(hash::httl::HPExpireTime),
    write!(hash::hpersist::HPersist),
    write!(hash::hgetex::HGetEx),
    write!(hash::hsetex::HSetEx),
    // Sets.
    write!(set::sadd::SAdd),
    write!(set::srem::SRem),
    read!(set::sismember::SIsMember),
    read!(set::sismember::SMIsMember),
    read!(set::smembers::SMembers),
    read!(set::scard::SCard),
    write!(set::spop::SPop),
    read!(set::srandmember::SRandMember),
    write!(set::smove::SMove),
    read!(set::sinter::SInter),
    read!(set::sintercard::SInterCard),
    write!(set::sinter::SInterStore),
    read!(set::sunion::SUnion),
    write!(set::sunion::SUnionStore),
    read!(set::sdiff::SDiff),
    write!(set::sdiff::SDiffStore),
    read!(set::sscan::SScan),
    // Lists.
    write!(list::lpush::LPush),
    write!(list::lpush::RPush),
    write!(list::lpush::LPushX),
    write!(list::lpush::RPushX),
    write!(list::lpop::LPop),
    write!(list::lpop::RPop),
    write!(list::lmpop::LMPop),
    write!(list::lmove::LMove),
    write!(list::lmove::RPopLPush),
    write!(list::blpop::BLPop),
    write!(list::blpop::BRPop),
    write!(list::blmpop::BLMPop),
    write!(list::blmove::BLMove),
    write!(list::blmove::BRPopLPush),
    read!(list::llen::LLen),
    read!(list::lindex::LIndex),
    read!(list::lrange::LRange),
    read!(list::lpos::LPos),
    write!(list::lset::LSet),
    write!(list::ltrim::LTrim),
    write!(list::linsert::LInsert),
    write!(list::lrem::LRem),
    // Streams.
    write!(stream::xadd::XAdd),
    write!(stream::xtrim::XTrim),
    write!(stream::xdel::XDel),
    write!(stream::xdelex::XDelEx),
    write!(stream::xsetid::XSetId),
    read!(stream::xlen::XLen),
    read!(stream::xrange::XRange),
    read!(stream::xrange::XRevRange),
    read!(stream::xread::XRead),
    read!(stream::xinfo::XInfo),
    write!(stream::xgroup::XGroup),
    write!(stream::xreadgroup::XReadGroup),
    write!(stream::xack::XAck),
    write!(stream::xackdel::XAckDel),
    read!(stream::xpending::XPending),
    write!(stream::xclaim::XClaim),
    write!(stream::xautoclaim::XAutoClaim),
    // JSON documents.
    write!(json::set::JsonSet),
    write!(json::mset::JsonMSet),
    write!(json::merge::JsonMerge),
    read!(json::get::JsonGet),
    read!(json::mget::JsonMGet),
    write!(json::del::JsonDel),
    write!(json::del::JsonForget),
    read!(json::type_of::JsonType),
    write!(json::clear::JsonClear),
    write!(json::toggle::JsonToggle),
    write!(json::numincrby::JsonNumIncrBy),
    write!(json::numincrby::JsonNumMultBy),
    write!(json::strappend::JsonStrAppend),
    read!(json::strlen::JsonStrLen),
    write!(json::arrappend::JsonArrAppend),
    read!(json::arrindex::JsonArrIndex),
    write!(json::arrinsert::JsonArrInsert),
    read!(json::arrlen::JsonArrLen),
    write!(json::arrpop::JsonArrPop),
    write!(json::arrtrim::JsonArrTrim),
    read!(json::objkeys::JsonObjKeys),
    read!(json::objlen::JsonObjLen),
    read!(json::resp::JsonResp),
    read!(json::debug::JsonDebug),
    // Sorted sets.
    write!(sorted::zadd::ZAdd),
    write!(sorted::zadd::ZIncrBy),
    write!(sorted::zrem::ZRem),
    read!(sorted::zscore::ZScore),
    read!(sorted::zscore::ZMScore),
    read!(sorted::zcard::ZCard),
    read!(sorted::zcount::ZCount),
    read!(sorted::zcount::ZLexCount),
    read!(sorted::zrank::ZRank),
    read!(sorted::zrank::ZRevRank),
    read!(sorted::zrange::ZRange),
    write!(sorted::zrangestore::ZRangeStore),
    read!(sorted::zrangeby::ZRevRange),
    read!(sorted::zrangeby::ZRangeByScore),
    read!(sorted::zrangeby::ZRevRangeByScore),
    read!(sorted::zrangeby::ZRangeByLex),
    read!(sorted::zrangeby::ZRevRangeByLex),
    write!(sorted::zremrange::ZRemRangeByRank),
    write!(sorted::zremrange::ZRemRangeByScore),
    write!(sorted::zremrange::ZRemRangeByLex),
    write!(sorted::zpop::ZPopMin),
    write!(sorted::zpop::ZPopMax),
    write!(sorted::zmpop::ZMPop),
    write!(sorted::bzpop::BZPopMin),
    write!(sorted::bzpop::BZPopMax),
    write!(sorted::bzmpop::BZMPop),
    read!(sorted::zrandmember::ZRandMember),
    read!(sorted::zunion::ZUnion),
    write!(sorted::zunion::ZUnionStore),
    read!(sorted::zinter::ZInter),
    write!(sorted::zinter::ZInterStore),
    read!(sorted::zdiff::ZDiff),
    write!(sorted::zdiff::ZDiffStore),
    read!(sorted::zintercard::ZInterCard),
    read!(sorted::zscan::ZScan),
    // Places.
    write!(geo::geoadd::GeoAdd),
    read!(geo::geodist::GeoDist),
    read!(geo::geopos::GeoHash),
    read!(geo::geopos::GeoPos),
    read!(geo::geosearch::GeoSearch),
    write!(geo::geosearch::GeoSearchStore),
    write!(geo::georadius::GeoRadius),
    read!(geo::georadius::GeoRadiusReadOnly),
    write!(geo::georadius::GeoRadiusByMember),
    read!(geo::georadius::GeoRadiusByMemberReadOnly),
    // HyperLogLogs.
    write!(hyperloglog::pfadd::PfAdd),
    read!(hyperloglog::pfcount::PfCount),
    write!(hyperloglog::pfdebug::PfDebug),
    write!(hyperloglog::pfmerge::PfMerge),
    // Keys.
    write!(key::copy::Copy),
    read!(key::dbsize::DbSize),
    write!(key::del::Del),
    read!(key::exists::Exists),
    write!(key::expire::Expire),
    write!(key::expire::ExpireAt),
    read!(key::ttl::ExpireTime),
    write!(key::flush::FlushAll),
    write!(key::flush::FlushDb),
    write!(key::persist::Persist),
    write!(key::expire::PExpire),
    write!(key::expire::PExpireAt),
    read!(key::ttl::PExpireTime),
    read!(key::ttl::PTtl),
    read!(key::randomkey::RandomKey),
    write!(key::rename::Rename),
    write!(key::rename::RenameNx),
    read!(key::exists::Touch),
    read!(key::ttl::Ttl),
    read!(key::type_of::Type),
    write!(key::del::Unlink),
    read!(key::dump::Dump),
    write!(key::restore::Restore),
    read!(key::object::Object),
    read!(key::keys::KeysMatching),
    read!(key::scan::Scan),
    write!(key::sort::Sort),
    read!(key::sort::SortReadOnly),
    read!(server::memory::Memory),
    // Bits.
    write!(bitmap::setbit::SetBit),
    read!(bitmap::getbit::GetBit),
    read!(bitmap::bitcount::BitCount),
    read!(bitmap::bitpos::BitPos),
    write!(bitmap::bitop::BitOp),
    write!(bitmap::bitfield::BitField),
    read!(bitmap::bitfield::BitFieldReadOnly),
    // Scripts and functions.
    write!(scripting::eval::Eval),
    read!(scripting::eval::EvalReadOnly),
    write!(scripting::eval::EvalSha),
    read!(scripting::eval::EvalShaReadOnly),
    write!(scripting::script::Script),
    write!(scripting::fcall::FCall),
    read!(scripting::fcall::FCallReadOnly),
    write!(scripting::function::Function),
    // Of Dictum's own.
    read!(dictum::get::DictumGet),
    read!(dictum::revision::DictumRevision),
    write!(dictum::set::DictumSet),
    write!(dictum::del::DictumDel),
    write!(dictum::named::DictumAck),
    write!(dictum::named::DictumAttach),
    write!(dictum::named::DictumForget),
    read!(dictum::named::DictumNamed),
    write!(dictum::named::DictumSub),
    write!(dictum::named::DictumUnsub),
    // The server as a whole.
];

/// Places in the index: a power of two well above the number of commands, so that most names stand alone.
const INDEX_PLACES: usize = 1024;

/// Longest name of a command.
const NAME_BYTES_MAX: usize = 32;

/// A place of the index: half of the name's hash, and 1 + its place in [`COMMANDS`], 0 for none.
#[derive(Clone, Copy)]
struct Indexed {
    tag: u16,
    number: u16,
}

/// Where each name's hash leads; collisions go to the next place.
static INDEX: [Indexed; INDEX_PLACES] = {
    let mut index = [Indexed { tag: 0, number: 0 }; INDEX_PLACES];
    let mut i = 0;
    while i < COMMANDS.len() {
        let name = COMMANDS[i].spec.name.as_bytes();
        assert!(!name.is_empty() && name.len() <= NAME_BYTES_MAX);
        let (mut place, tag) = name_hash(name);
        while index[place].number != 0 {
            place = (place + 1) % INDEX_PLACES;
        }
        index[place] = Indexed { tag, number: i as u16 + 1 };
        i += 1;
    }
    index
};

/// A place in the index for a name, and more of its hash; the same for upper and lower case. Each command is looked up several times on its way, so only five of
/// the letters count: those that agree in them and in their length are told apart by the whole name.
const fn name_hash(name: &[u8]) -> (usize, u16) {
    let last = name.len() - 1;
    let quarter = name.len() / 4;
    let letters = name[0] as u64
        | (name[quarter] as u64) << 8
        | (name[name.len() / 2] as u64) << 16
        | (name[last - quarter] as u64) << 24
        | (name[last] as u64) << 32;
    let mixed = (letters | 0x20_2020_2020 | (name.len() as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 48) as usize % INDEX_PLACES, (mixed >> 32) as u16)
}

/// The command of a name, in any case.
#[must_use]
pub fn lookup(name: &[u8]) -> Option<&'static Entry> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let (mut place, tag) = name_hash(name);
    loop {
        let indexed = INDEX[place];
        let number = usize::from(indexed.number).checked_sub(1)?;
        if indexed.tag == tag && COMMANDS[number].spec.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(&COMMANDS[number]);
        }
        place = (place + 1) % INDEX_PLACES;
    }
}

/// The command that `args` call for, if it exists and takes so many arguments.
pub fn find(args: &[&[u8]]) -> Result<&'static Entry, Failure> {
    let entry = args.first().and_then(|name| lookup(name)).ok_or_else(|| Failure::unknown_command(args))?;
    if entry.spec.arity_fits(args.len()) { Ok(entry) } else { Err(entry.spec.wrong_arity()) }
}

/// As [`find`], and the arguments can be read, and no key is too long: what is asked before a command goes to the log.
///
/// What has come into the log is applied whatever the length of its keys.
pub fn check(args: &[&[u8]]) -> Result<&'static Entry, Failure> {
    let entry = find(args)?;
    check_words(entry, args)?;
    Ok(entry)
}

/// As [`check`], of words whose first names this command.
pub fn check_words(entry: &Entry, args: &[&[u8]]) -> Result<(), Failure> {
    if !entry.spec.arity_fits(args.len()) {
        return Err(entry.spec.wrong_arity());
    }
    check_keys(entry.spec, args)?;
    (entry.parse_check)(Args::only_checked(args))
}

/// Refuses fields and members that a cluster of this version does not take. Where nobody has asked before, an entry does: this spares the log.
pub fn check_names(entry: &Entry, args: &[&[u8]], version: u16) -> Result<(), Failure> {
    if Feature::LongNames.is_in(version) || args.iter().all(|word| word.len() <= KEY_BYTES_MAX) {
        return Ok(());
    }
    match (entry.parse_check)(Args::in_version(args, version)) {
        Err(failure @ (Failure::FieldTooLong(_) | Failure::MemberTooLong(_))) => Err(failure),
        _ => Ok(()),
    }
}

/// Refuses keys that no store takes ([`KEY_BYTES_MAX`]).
pub fn check_keys(spec: &Spec, args: &[&[u8]]) -> Result<(), Failure> {
    // Most commands have no long word at all.
    if args.iter().all(|word| word.len() <= KEY_BYTES_MAX) {
        return Ok(());
    }
    let keys = spec.keys_of(args);
    if keys.iter().all(|key| key.len() <= KEY_BYTES_MAX) { Ok(()) } else { Err(Failure::KeyTooLong) }
}
