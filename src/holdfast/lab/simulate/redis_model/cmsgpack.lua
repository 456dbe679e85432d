-- cmsgpack as in Redis: packs whole numbers as integers, a table with the keys 1 to n as an array, and strings as str;
-- unpack returns all values in the text.
local pack_double, unpack_double, MAX_NESTING = ...
local byte, char, concat, floor, sub = string.byte, string.char, table.concat, math.floor, string.sub
local encode

local function big_endian(n, bytes)
  local out = {}
  for at = bytes, 1, -1 do
    out[at] = char(n % 256)
    n = floor(n / 256)
  end
  return concat(out)
end

local function encode_integer(n)
  if n >= 0 then
    if n <= 127 then return char(n) end
    if n <= 0xff then return char(0xcc, n) end
    if n <= 0xffff then return char(0xcd, floor(n / 256), n % 256) end
    if n <= 0xffffffff then return char(0xce) .. big_endian(n, 4) end
    return char(0xcf) .. big_endian(n, 8)
  end
  if n >= -32 then return char(256 + n) end
  if n >= -128 then return char(0xd0, 256 + n) end
  if n >= -32768 then return char(0xd1) .. big_endian(n + 65536, 2) end
  if n >= -2147483648 then return char(0xd2) .. big_endian(n + 4294967296, 4) end
  return char(0xd3) .. big_endian(floor(n / 4294967296) + 4294967296, 4) .. big_endian(n % 4294967296, 4)
end

local function encode_size(size, fixed, fixed_max, small, medium, large)
  if size <= fixed_max then return char(fixed + size) end
  if small and size <= 0xff then return char(small, size) end
  if size <= 0xffff then return char(medium) .. big_endian(size, 2) end
  return char(large) .. big_endian(size, 4)
end

local function array_length(value)
  local count, highest = 0, 0
  for key in pairs(value) do
    if type(key) ~= 'number' or key <= 0 or key ~= floor(key) then return nil end
    count = count + 1
    if key > highest then highest = key end
  end
  return count == highest and count or nil
end

local function encode_table(out, value, level)
  local length = array_length(value)
  if length then
    out[#out + 1] = encode_size(length, 0x90, 15, nil, 0xdc, 0xdd)
    for at = 1, length do encode(out, value[at], level + 1) end
    return
  end
  local count = 0
  for _ in pairs(value) do count = count + 1 end
  out[#out + 1] = encode_size(count, 0x80, 15, nil, 0xde, 0xdf)
  for key, item in pairs(value) do
    encode(out, key, level + 1)
    encode(out, item, level + 1)
  end
end

function encode(out, value, level)
  local kind = type(value)
  if kind == 'string' then
    out[#out + 1] = encode_size(#value, 0xa0, 31, 0xd9, 0xda, 0xdb)
    out[#out + 1] = value
  elseif kind == 'number' then
    local is_integer = value == floor(value) and value >= -9223372036854775808 and value < 9223372036854775808
    out[#out + 1] = is_integer and encode_integer(value) or pack_double(value)
  elseif kind == 'boolean' then
    out[#out + 1] = value and '\195' or '\194'
  elseif kind == 'table' and level < MAX_NESTING then
    encode_table(out, value, level)
  else
    out[#out + 1] = '\192'
  end
end

local function unsigned(text, at, bytes)
  if at + bytes - 1 > #text then error('Missing bytes in input.', 0) end
  local n = 0
  for index = at, at + bytes - 1 do n = n * 256 + byte(text, index) end
  return n, at + bytes
end

local signed

function signed(text, at, bytes)
  if bytes == 8 then
    -- In two halves, because a double cannot hold 64 bits.
    local high, low = signed(text, at, 4), unsigned(text, at + 4, 4)
    return high * 4294967296 + low, at + 8
  end
  local n, after = unsigned(text, at, bytes)
  if byte(text, at) >= 128 then n = n - 256 ^ bytes end
  return n, after
end

local function decode_string(text, at, size)
  if at + size - 1 > #text then error('Missing bytes in input.', 0) end
  return sub(text, at, at + size - 1), at + size
end

local decode

local function decode_array(text, at, size)
  local value = {}
  for index = 1, size do value[index], at = decode(text, at) end
  return value, at
end

local function decode_map(text, at, size)
  local value = {}
  for _ = 1, size do
    local key
    key, at = decode(text, at)
    value[key], at = decode(text, at)
  end
  return value, at
end

local function sized(read, bytes)
  return function(text, at)
    local size, after = unsigned(text, at, bytes)
    return read(text, after, size)
  end
end

local TAGGED = {
  [0xc0] = function(_, at) return nil, at end,
  [0xc2] = function(_, at) return false, at end,
  [0xc3] = function(_, at) return true, at end,
  [0xca] = function(text, at) return unpack_double((decode_string(text, at, 4))), at + 4 end,
  [0xcb] = function(text, at) return unpack_double((decode_string(text, at, 8))), at + 8 end,
  [0xd9] = sized(decode_string, 1), [0xda] = sized(decode_string, 2), [0xdb] = sized(decode_string, 4),
  [0xdc] = sized(decode_array, 2), [0xdd] = sized(decode_array, 4),
  [0xde] = sized(decode_map, 2), [0xdf] = sized(decode_map, 4),
}
for power = 0, 3 do
  TAGGED[0xcc + power] = function(text, at) return unsigned(text, at, 2 ^ power) end
  TAGGED[0xd0 + power] = function(text, at) return signed(text, at, 2 ^ power) end
end

function decode(text, at)
  local tag = byte(text, at)
  if not tag then error('Missing bytes in input.', 0) end
  at = at + 1
  if tag <= 0x7f then return tag, at end
  if tag >= 0xe0 then return tag - 256, at end
  if tag >= 0xa0 and tag <= 0xbf then return decode_string(text, at, tag - 0xa0) end
  if tag >= 0x90 and tag <= 0x9f then return decode_array(text, at, tag - 0x90) end
  if tag <= 0x8f then return decode_map(text, at, tag - 0x80) end
  local read = TAGGED[tag]
  if not read then error('Bad data format in input.', 0) end
  return read(text, at)
end

local function unpack_from(text, at)
  if at > #text then return end
  local value, after = decode(text, at)
  return value, unpack_from(text, after)
end

cmsgpack = {
  pack = function(...)
    if select('#', ...) == 0 then error('bad argument #0 to \'pack\' (MessagePack pack needs input.)', 0) end
    local out = {}
    for index = 1, select('#', ...) do encode(out, (select(index, ...)), 0) end
    return concat(out)
  end,
  unpack = function(text) return unpack_from(text, 1) end,
}
