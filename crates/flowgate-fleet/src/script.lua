-- Takes units from one bucket.
--
-- KEYS[1]: the record, `debt:time:count:period`. A bucket without a record is full. If the debt was lowered, `:void:reset` follows:
-- what was seen by then is void, and the time of the last reset. And then what was given back, see give_back.lua.
-- ARGV: count, period, burst, then the last debt that the caller has seen with its time, and then runs: how often to take how
-- many units, and how often at least. A unit is `period` parts, and `count` parts flow back per microsecond. The runs are taken
-- in order, each as often as the bucket allows, and not at all if that is less often than at least.
-- Returns the time in microseconds, the debt in parts, how much of it the record had forgotten, the time of the last reset, and how
-- often each run was taken.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local count, period, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full, debt, changed, void, reset, given = burst * period, 0, false, '', '', ''
-- What is left of a debt. If the clock was set back, or is another one, nothing flows back, and time goes on from here.
local function left(owed, at, rate)
  if at > now then return owed end
  if now - at >= owed / rate then return 0 end
  return owed - (now - at) * rate
end
local record = redis.call('GET', KEYS[1])
if record then
  local was, at, old_count, old_period
  was, at, old_count, old_period, void, reset, given =
    string.match(record, '^(%d+):(%d+):(%d+):(%d+):?(%d*):?(%d*)([:,%d]*)$')
  if not was then
    return redis.error_reply('FOREIGN the value of this record is not one of flowgate')
  end
  at, old_count, old_period = at + 0, old_count + 0, old_period + 0
  debt = left(was + 0, at, old_count)
  changed = at > now or old_count ~= count or old_period ~= period
  if old_period ~= period then
    -- Whole units are exact. The rest of one is rounded up, and never less than exact.
    local units = math.floor(debt / old_period)
    local rest = (debt - units * old_period) / old_period * period
    debt = math.min(units * period + math.ceil(rest + rest / 2 ^ 50), 2 ^ 53 - 1)
  end
end
-- A debt above the burst stays: it is of a caller with a larger one.
local seen = left(tonumber(ARGV[4]), tonumber(ARGV[5]), count)
if void ~= '' and tonumber(ARGV[5]) <= tonumber(void) then seen = 0 end
local reply = {now, 0, math.max(seen - debt, 0), tonumber(reset) or 0}
if seen > debt then
  debt, changed = seen, true
end
for run = 6, #ARGV, 3 do
  local times, cost, least = tonumber(ARGV[run]), ARGV[run + 1] * period, tonumber(ARGV[run + 2])
  local taken = math.min(times, math.floor((full - debt) / cost))
  if taken < least then taken = 0 end
  if taken > 0 then
    debt, changed = debt + taken * cost, true
  end
  reply[#reply + 1] = taken
end
if changed and debt > 0 then
  local text = string.format('%.0f:%.0f:%.0f:%.0f', debt, now, count, period)
  local lasts = math.ceil(debt / count / 1000) + 10000
  if void ~= '' then
    -- As long as a process may have seen something before it.
    text = text .. ':' .. void .. ':' .. reset .. given
    lasts = math.max(lasts, redis.call('PTTL', KEYS[1]))
  end
  redis.call('SET', KEYS[1], text, 'PX', string.format('%.0f', lasts))
end
reply[2] = debt
return reply
