-- Gives the owner's run the entries that are for it, each counted once more; what was given too often goes to the dead
-- letters. Choice and count are one step: an entry that was only looked at was not delivered.
--
-- KEYS  1 lease  2 token  3 inbox  4 state  5 index  6 dead  7 dead index
-- ARGV  1 thread name  2 owner  3 token  4 most open deliveries of an entry  5 most dead letters kept  6 page size
--       7 agent of a run that is on, '' = the run starts  8 cursor of a run that is on  9 dead letters are kept for ms
--
-- Replies
--   {'lost'}
--   {'taken', cursor, 1 if an abort was asked for else 0, {{id, envelope, branch, wakes, attempt}, ...}, dead-lettered,
--    1 if the inbox was not read to its end else 0}

-- @include thread-lease
-- @include inbox-entries

if not holds_lease(KEYS[1], KEYS[2], ARGV[2], ARGV[3]) then return {'lost'} end

local agent, cursor = ARGV[7], ARGV[8]
local starting = agent == ''
if starting then cursor = '0-0' end
local taken, dead = {}, 0

-- Gives one entry, or removes it when it had its deliveries. Answers whether it was removed.
local function give(entry)
  local attempt, open = count_delivery(KEYS[4], entry.id, ARGV[3])
  if open <= tonumber(ARGV[4]) then
    taken[#taken + 1] = {entry.id, entry.signal, entry.branch, entry.wakes, attempt}
    return false
  end
  redis.call('XADD', KEYS[6], 'MAXLEN', '~', ARGV[5], '*', 'signal', entry.signal, 'id', entry.id_of_signal,
    'agent', entry.agent, 'turn', entry.turn, 'branch', entry.branch, 'wakes', entry.wakes, 'attempts', attempt - 1)
  redis.call('PEXPIRE', KEYS[6], ARGV[9])
  redis.call('ZADD', KEYS[7], now_ms(), ARGV[1])
  redis.call('ZREMRANGEBYSCORE', KEYS[7], '-inf', now_ms() - tonumber(ARGV[9]))
  dead = dead + 1
  remove_entry(KEYS[3], KEYS[4], entry)
  return true
end

local function take_from(page)
  local leader
  if starting then
    for at = 1, #page do
      if page[at].wakes == '1' then leader = page[at] break end
    end
    if not leader then return false end
    agent = leader.agent
  end
  local removed = false
  for _, entry in ipairs(page) do
    if entry.agent == agent and (entry.turn == 'current' or entry == leader) then
      removed = give(entry) or removed
    end
  end
  return removed
end

local more = 0
repeat
  local page = read_entries(KEYS[3], '(' .. cursor, '+', ARGV[6])
  more = #page == tonumber(ARGV[6]) and 1 or 0
  if #page == 0 then break end
  -- Where entries were removed and none was left to give, the same page is read again under another leader.
  local removed = take_from(page)
  if #taken > 0 or not removed then cursor = page[#page].id end
until #taken > 0

if starting and #taken > 0 then redis.call('HSET', KEYS[4], 'agent', agent) end
if more == 0 then redis.call('HDEL', KEYS[4], 'unread') end
if waking(KEYS[4]) == 0 then redis.call('ZREM', KEYS[5], ARGV[1]) end
local abort = redis.call('HGET', KEYS[4], 'abort') == ARGV[2]
return {'taken', cursor, abort and 1 or 0, taken, dead, more}
