-- entries of an inbox as tables { id (of the entry), id_of_signal, signal, agent, turn, branch, wakes }

local function read_entries(inbox, from, to, count)
  local entries = redis.call('XRANGE', inbox, from, to, 'COUNT', count)
  for at, item in ipairs(entries) do
    local entry = {}
    for i = 1, #item[2], 2 do entry[item[2][i]] = item[2][i + 1] end
    entry.id_of_signal, entry.id = entry.id, item[1]
    entries[at] = entry
  end
  return entries
end

-- Takes an entry out of the inbox and out of every count that it is part of.
local function remove_entry(inbox, state, entry)
  redis.call('XDEL', inbox, entry.id)
  redis.call('HINCRBY', state, 'bytes', -#entry.signal)
  if entry.wakes == '1' then redis.call('HINCRBY', state, 'wake', -1) end
  redis.call('HDEL', state, 'try:' .. entry.id, 'open:' .. entry.id)
end

-- The open deliveries of an entry are the tokens of the grants that were given it and have not accounted for it: each ` 123`.
-- Their runs may have died of it. What a run settled or gave back is not among them.

local function is_open(deliveries, token)
  return token ~= '' and deliveries and (deliveries .. ' '):find(' ' .. token .. ' ', 1, true) ~= nil
end

-- Counts that the grant with this token is given the entry; answers how often it was given, and how many of those deliveries
-- are open. A grant that asks again, since the reply was lost, is given it once: else a bad network would make dead letters of
-- good signals.
local function count_delivery(state, id, token)
  local deliveries = redis.call('HGET', state, 'open:' .. id) or ''
  local attempt
  if is_open(deliveries, token) then
    attempt = tonumber(redis.call('HGET', state, 'try:' .. id))
  else
    deliveries = deliveries .. ' ' .. token
    redis.call('HSET', state, 'open:' .. id, deliveries)
    attempt = redis.call('HINCRBY', state, 'try:' .. id, 1)
  end
  local _, open = deliveries:gsub(' %d+', '')
  return attempt, open
end

-- Takes this grant's delivery of an entry off the open ones.
local function close_delivery(state, field, token)
  local deliveries = redis.call('HGET', state, field)
  if not is_open(deliveries, token) then return end
  local left = (deliveries .. ' '):gsub(' ' .. token .. ' ', ' '):gsub(' $', '')
  if left == '' then redis.call('HDEL', state, field) else redis.call('HSET', state, field, left) end
end

-- All of this grant: its run is over and they did not end it.
local function close_deliveries(state, token)
  for _, field in ipairs(redis.call('HKEYS', state)) do
    if field:sub(1, 5) == 'open:' then close_delivery(state, field, token) end
  end
end

-- Takes out what the run that is on (its grant's token, or false) was not given: the signals whose ids are keys of `chosen`, or
-- all. Answers which.
local function cancel_waiting(inbox, state, index, name, token, chosen)
  local cancelled = {}
  for _, entry in ipairs(read_entries(inbox, '-', '+', 100000)) do
    local given = token and is_open(redis.call('HGET', state, 'open:' .. entry.id), token)
    if not given and (not chosen or chosen[entry.id_of_signal]) then
      remove_entry(inbox, state, entry)
      cancelled[#cancelled + 1] = entry.id_of_signal
    end
  end
  if tonumber(redis.call('HGET', state, 'wake') or 0) == 0 then redis.call('ZREM', index, name) end
  return cancelled
end
