-- How many entries were removed before they were read. Asked when a reader is behind, ahead of its next read.
--
-- KEYS[1]  stream
-- ARGV[1]  group, or empty for a reader that keeps its position itself
-- ARGV[2]  that position
-- ARGV[3]  how many entries the stream had been given up to that position
-- Reply    entries lost: in the group's whole life, or since that position
local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
if info.err then
  return 0
end
local stream = {}
for at = 1, #info, 2 do
  stream[info[at]] = info[at + 1]
end
local first = stream['first-entry']
if not first or not stream['entries-added'] then
  return 0
end

local function after(a, b)
  local aMs, aSeq = string.match(a, '^(%d+)-(%d+)$')
  local bMs, bSeq = string.match(b, '^(%d+)-(%d+)$')
  if tonumber(aMs) ~= tonumber(bMs) then
    return tonumber(aMs) > tonumber(bMs)
  end
  return tonumber(aSeq) > tonumber(bSeq)
end

local gone = stream['entries-added'] - stream['length']
if ARGV[1] == '' then
  return after(first[1], ARGV[2]) and math.max(0, gone - tonumber(ARGV[3])) or 0
end
local groups = redis.call('XINFO', 'GROUPS', KEYS[1])
for row = 1, #groups do
  local group = {}
  for at = 1, #groups[row], 2 do
    group[groups[row][at]] = groups[row][at + 1]
  end
  if group['name'] == ARGV[1] then
    local read = group['entries-read']
    if read and after(first[1], group['last-delivered-id']) then
      return math.max(0, gone - read)
    end
  end
end
return 0
