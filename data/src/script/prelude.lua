-- What scripts see. Runs once in each virtual machine, with the functions that are written in Rust, and gives back how to run a script.
--
-- A script must leave nothing behind for the next one: what it sees is shut, and what a careless library function could still write into is
-- looked at after each run (`fronts`). And it must mean the same on every replica: nothing here depends on addresses or on garbage.
local native = ...

local error, getmetatable, next, pcall, pairs, rawset, setmetatable = error, getmetatable, next, pcall, pairs, rawset, setmetatable
local tostring, type, xpcall, loadstring, coroutine_resume = tostring, type, xpcall, loadstring, coroutine.resume
local concat, sort, select, ipairs = table.concat, table.sort, select, ipairs
local globals = _G
-- Has Lua count a script's work from here on. What stands before it depends on what ran in this machine before.
local count_anew = dictum_begin

-- What scripts find by name.
local visible = {}
-- What nobody may write into, and where what it shows really is.
local behind = {}
-- What stands before what is shut: empty, unless something was written past it.
local fronts = {}

local function refuse_write()
  error('Attempt to modify a readonly table', 2)
end

local function shut(content)
  local front = {}
  setmetatable(front, { __index = content, __newindex = refuse_write, __metatable = false })
  behind[front] = content
  fronts[#fronts + 1] = front
  return front
end

-- Errors of functions in Rust look as those of functions in C do.
local function told(err)
  if type(err) == 'userdata' then return native.told(err) end
  return err
end

-- A limit is broken: nothing may catch that.
local function go_on(ok, ...)
  if ok then return ok, ... end
  local err = ...
  if native.broken(err) then error('a limit is broken', 0) end
  return ok, told(err)
end

-- As Redis does: who catches an error of a command gets its text.
local function caught(ok, ...)
  if ok then return ok, ... end
  local err = ...
  if native.broken(err) then error('a limit is broken', 0) end
  err = told(err)
  if type(err) == 'table' and err.err ~= nil then err = err.err end
  return ok, err
end

-- The order of keys that are tables or functions is that of their addresses.
local function check_order(of)
  local key = next(of)
  local seen = 0
  while key ~= nil do
    local kind = type(key)
    if kind == 'table' or kind == 'function' or kind == 'thread' then native.refuse_order() end
    key = next(of, key)
    seen = seen + 1
  end
  if seen > 100 then native.charge(seen) end
end

local checked
function visible.next(of, key)
  if type(of) == 'table' then
    of = behind[of] or of
    if key == nil or checked ~= of then
      check_order(of)
      checked = of
    end
  end
  return next(of, key)
end

function visible.pairs(of)
  if type(of) == 'table' then
    of = behind[of] or of
    check_order(of)
    return next, of, nil
  end
  return pairs(of)
end

function visible.tostring(...)
  if select('#', ...) == 0 then return tostring(...) end
  local value = ...
  local kind = type(value)
  if kind == 'table' then
    local meta = getmetatable(value)
    if type(meta) == 'table' and meta.__tostring ~= nil then return tostring(value) end
    return 'table: 0x0'
  elseif kind == 'function' or kind == 'thread' then
    return kind .. ': 0x0'
  end
  return tostring(value)
end

function visible.pcall(...) return caught(pcall(...)) end
function visible.xpcall(call, handler)
  return go_on(xpcall(call, function(err)
    if native.broken(err) then return err end
    return handler(told(err))
  end))
end

function visible.rawset(into, ...)
  if behind[into] then error('Attempt to modify a readonly table', 0) end
  return rawset(into, ...)
end

function visible.setmetatable(of, ...)
  if behind[of] then error('Attempt to modify a readonly table', 0) end
  return setmetatable(of, ...)
end

function visible.collectgarbage(what)
  if what == 'count' then return 64 end
  return 0
end

function visible.gcinfo() return 64, 0 end

-- Only text: what is compiled already could break the machine.
function visible.loadstring(text, name)
  local kind = type(text)
  if kind == 'string' then
    native.charge(#text)
    if text:byte() == 27 then return nil, 'attempt to load chunk with wrong mode' end
  end
  return loadstring(text, name)
end

function visible.load(read, name)
  if type(read) ~= 'function' then
    error("bad argument #1 to 'load' (function expected, got " .. (read == nil and 'no value' or type(read)) .. ')', 2)
  end
  local parts = {}
  while true do
    local part = read()
    if part == nil or part == '' then break end
    if type(part) ~= 'string' then return nil, 'reader function must return a string' end
    parts[#parts + 1] = part
  end
  return visible.loadstring(concat(parts), name or '=(load)')
end

for _, name in ipairs({ 'assert', 'error', 'getmetatable', 'ipairs', 'rawequal', 'rawget', 'select', 'tonumber', 'type', 'unpack', '_VERSION' }) do
  visible[name] = globals[name]
end
visible._G = globals

local function copy(from, into)
  for name, value in pairs(from) do into[name] = value end
  return into
end

-- Libraries of Lua's own.
local strings = copy(native.string, {})
for _, name in ipairs({ 'byte', 'char', 'format', 'len', 'lower', 'reverse', 'sub', 'upper' }) do strings[name] = string[name] end

local step = native.patterns.step
local function next_match(state, at, ...)
  if at == nil then return nil end
  state.at = at
  return ...
end

function strings.gmatch(text, pattern)
  local state = { at = 0 }
  text, pattern = strings.sub(text, 1), strings.sub(pattern, 1)
  return function() return next_match(state, step(text, pattern, state.at)) end
end
strings.gfind = strings.gmatch

local function replaced_by(by, kind, text, first, last, ...)
  if not first then return nil end
  local new
  if kind == 'table' then new = by[(...)] else new = by(...) end
  if not new then
    new = strings.sub(text, first, last)
  elseif type(new) ~= 'string' and type(new) ~= 'number' then
    error('invalid replacement value (a ' .. type(new) .. ')', 3)
  end
  return first, last, new
end

function strings.gsub(text, pattern, by, count)
  local kind = type(by)
  if kind ~= 'table' and kind ~= 'function' then return native.patterns.gsub(text, pattern, by, count) end
  text, pattern = strings.sub(text, 1), strings.sub(pattern, 1)
  local parts, replaced = {}, 0
  local from, copied = 1, 1
  local anchored = strings.sub(pattern, 1, 1) == '^'
  if anchored then pattern = strings.sub(pattern, 2) end
  while not count or replaced < count do
    local first, last, new = replaced_by(by, kind, text, native.patterns.at(text, pattern, from, anchored))
    if not first then break end
    replaced = replaced + 1
    parts[#parts + 1] = strings.sub(text, copied, first - 1)
    parts[#parts + 1] = new
    copied = last + 1
    from = last >= first and last + 1 or first + 1
    if from > #text + 1 or anchored then break end
  end
  parts[#parts + 1] = strings.sub(text, copied)
  return concat(parts), replaced
end

local tables = copy(table, {})
function tables.sort(of, ...)
  if type(of) == 'table' and #of > 100 then native.charge(#of * 10) end
  return sort(of, ...)
end

local maths = copy(native.math, copy(math, {}))

local json = copy(native.cjson, { null = native.null, _NAME = 'cjson', _VERSION = '2.1.0' })
local pack = copy(native.cmsgpack, { _NAME = 'cmsgpack', _VERSION = 'lua-cmsgpack 0.4.0' })

visible.string = shut(strings)
visible.table = shut(tables)
visible.math = shut(maths)
visible.cjson = shut(json)
function json.new() return visible.cjson end
visible.cmsgpack = shut(pack)
visible.struct = shut(copy(native.struct, {}))
visible.bit = shut(copy(native.bit, {}))

local coroutines = copy(coroutine, {})
function coroutines.resume(...) return go_on(coroutine_resume(...)) end
visible.coroutine = shut(coroutines)

-- What is Redis's own.
local redis = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
  REDIS_VERSION = native.version, REDIS_VERSION_NUM = native.version_number,
}

copy(native.redis, redis)

local function failure(text) return { err = text, ignore_error_stats_update = true } end

local function raise(text) error(failure('ERR ' .. text), 0) end

-- What a library registers while it is being loaded: a list of name, callback, flags and description.
local pending

local flags_known = { ['no-writes'] = true, ['allow-oom'] = true, ['allow-stale'] = true, ['no-cluster'] = true, ['allow-cross-slot-keys'] = true }

local function flags_of(said)
  if type(said) ~= 'table' then raise('flags argument to redis.register_function must be a table representing function flags') end
  local flags = {}
  for _, flag in ipairs(said) do
    if not flags_known[flag] then raise('unknown flag given') end
    flags[#flags + 1] = flag
  end
  return flags
end

local function register(...)
  local count = select('#', ...)
  if count < 1 or count > 2 then raise('wrong number of arguments to redis.register_function') end
  local name, callback, flags, description = ...
  flags, description = {}, nil
  if count == 1 then
    local said = name
    if type(said) ~= 'table' then
      raise('calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).')
    end
    name, callback = said.function_name, said.callback
    for key in next, said do
      if key ~= 'function_name' and key ~= 'callback' and key ~= 'flags' and key ~= 'description' then
        raise('unknown argument given to redis.register_function')
      end
    end
    if type(name) == 'number' then name = tostring(name) end
    if name ~= nil and type(name) ~= 'string' then raise('function_name argument given to redis.register_function must be a string') end
    if callback ~= nil and type(callback) ~= 'function' then raise('callback argument given to redis.register_function must be a function') end
    if said.flags ~= nil then flags = flags_of(said.flags) end
    description = said.description
    if description ~= nil and type(description) ~= 'string' then
      raise('description argument given to redis.register_function must be a string')
    end
    if name == nil then raise('redis.register_function must get a function name argument') end
    if callback == nil then raise('redis.register_function must get a callback argument') end
  else
    if type(name) == 'number' then name = tostring(name) end
    if type(name) ~= 'string' then raise('first argument to redis.register_function must be a string') end
    if type(callback) ~= 'function' then raise('second argument to redis.register_function must be a function') end
  end
  if not native.is_name(name) then
    raise('Library names can only contain letters, numbers, or underscores(_) and must be at least one character long')
  end
  for _, other in ipairs(pending) do
    if other.name == name then raise('Function already exists in the library') end
  end
  pending[#pending + 1] = { name = name, callback = callback, flags = flags, description = description }
end

visible.redis = shut(redis)
local in_use = visible.redis
local while_loading = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REDIS_VERSION = redis.REDIS_VERSION, REDIS_VERSION_NUM = redis.REDIS_VERSION_NUM,
  log = redis.log, register_function = register,
}
setmetatable(while_loading, { __index = function(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end })
while_loading = shut(while_loading)

-- From here on everybody sees `visible` alone.
setmetatable(visible, { __index = function(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end })
for name in pairs(globals) do globals[name] = nil end
setmetatable(globals, { __index = visible, __newindex = refuse_write, __metatable = false })
behind[globals] = visible
fronts[#fronts + 1] = globals
local of_strings = getmetatable('')
of_strings.__index = strings
of_strings.__metatable = false

local function located(err)
  if native.broken(err) then return err end
  local source, line = native.position()
  err = told(err)
  if type(err) ~= 'table' then
    local text = tostring(err)
    -- Raised by a function of Lua's own that is called from here.
    if line then text = native.patterns.gsub(text, '^dictum:%d+: ', 'user_script:' .. line .. ': ') end
    err = { err = 'ERR ' .. text }
  end
  if line then
    err.source = source
    err.line = line
  end
  return err
end

local api = { redis = redis, fronts = fronts }

function api.script(run, keys, args)
  checked = nil
  visible.KEYS, visible.ARGV = keys, args
  count_anew()
  return xpcall(run, located)
end

-- Runs a library: it registers its functions anew each time, so that nothing is left in them of what was called before.
function api.loading(library)
  checked = nil
  pending = {}
  rawset(visible, 'KEYS', nil)
  rawset(visible, 'ARGV', nil)
  visible.redis = while_loading
  count_anew()
  local ok, value = xpcall(library, located)
  visible.redis = in_use
  if ok then value = pending end
  return ok, value
end

function api.call(library, name, keys, args)
  local ok, value = api.loading(library)
  if not ok then return ok, value end
  for _, of in ipairs(value) do
    if of.name == name then
      return xpcall(function() return of.callback(keys, args) end, located)
    end
  end
  return false, failure('ERR Function not found')
end

return api
