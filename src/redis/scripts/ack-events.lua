-- Acks entries that are still pending for this consumer. What a sibling has claimed in the meantime is the sibling's to
-- settle, so the check and the ack are one step.
--
-- KEYS     streams
-- ARGV[1]  consumer
-- ARGV     then for each stream: group, number of ids, the ids in ascending order
-- Reply    for each stream the number of entries that were acked
local consumer = ARGV[1]
local at = 2
local acked = {}

local function pending(key, group, from, to, count)
  local rows = redis.pcall('XPENDING', key, group, from, to, count, consumer)
  if rows.err then
    -- The stream or its group has gone, and what was pending with it.
    return {}
  end
  return rows
end

for k = 1, #KEYS do
  local key, group, count = KEYS[k], ARGV[at], tonumber(ARGV[at + 1])
  local first, last = at + 2, at + 1 + count
  at = last + 1

  local rows = pending(key, group, ARGV[first], ARGV[last], count)
  local owned = {}
  for row = 1, #rows do
    owned[rows[row][1]] = true
  end
  -- A full page may have been filled by entries that are not ours to ack now: those beyond it are asked one by one.
  local seenAll = #rows < count
  local mine = {}
  local beyond = false
  for arg = first, last do
    local id = ARGV[arg]
    if owned[id] then
      mine[#mine + 1] = id
    elseif not seenAll then
      beyond = true
    end
  end
  if beyond then
    for arg = first, last do
      local id = ARGV[arg]
      if not owned[id] and #pending(key, group, id, id, 1) == 1 then
        mine[#mine + 1] = id
      end
    end
  end
  acked[k] = #mine > 0 and redis.call('XACK', key, group, unpack(mine)) or 0
end
return acked
