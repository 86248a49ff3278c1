-- Takes units from one fixed window after the other.
--
-- KEYS[1]: the record, `w:used:began:limit:period`, or `a:` of aligned windows, and after a reset `:time` of that. A limit whose window
-- is over, or has not begun, needs none.
-- ARGV: limit, period, 1 if windows are aligned and else 0, then the last use that the caller has seen with the beginning of its window,
-- and then runs: how often to take how many units, and how often at least. A window admits `limit` units in `period` microseconds. The
-- runs are taken in order, each as often as the window allows, and not at all if that is less often than at least.
-- Returns the time in microseconds, the units used, how many of them the record had forgotten, when the window began, and how often each
-- run was taken.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, period, aligned = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local used, began, changed, reset = 0, 0, false, ''
local kind = aligned and 'a' or 'w'
-- When a window ends. It begins with its first admission.
local function ending(at)
  if aligned then at = at - math.fmod(at, period) end
  return at + period
end
-- A window of the future is of a clock that was set back since. It lasts on, but not for much longer than a window.
local function dated(at)
  return math.min(at, now + period)
end
local record = redis.call('GET', KEYS[1])
if record then
  local was_kind, was, at, was_limit, was_period
  was_kind, was, at, was_limit, was_period, reset = string.match(record, '^([wa]):(%d+):(%d+):(%d+):(%d+):?(%d*)$')
  if was then
    began = dated(at + 0)
    if now < ending(began) then used = was + 0 end
    changed = began < at + 0 or was_kind ~= kind or was_limit + 0 ~= limit or was_period + 0 ~= period
  else
    -- What a reset leaves of a limit of any kind.
    reset = string.match(record, '^0:%d+:1:1:%d+:(%d+)$')
    if not reset then
      return redis.error_reply('FOREIGN the value of this record is not a window')
    end
  end
end
local seen, seen_began = tonumber(ARGV[4]), dated(tonumber(ARGV[5]))
-- What was seen of a window that is over, or before a reset, no longer counts.
if now >= ending(seen_began) or reset ~= '' and tonumber(ARGV[5]) <= tonumber(reset) then seen = 0 end
local reply = {now, 0, math.max(seen - used, 0), 0}
if seen > used then
  if used == 0 then began = seen_began end
  used, changed = seen, true
end
for run = 6, #ARGV, 3 do
  local times, units, least = tonumber(ARGV[run]), tonumber(ARGV[run + 1]), tonumber(ARGV[run + 2])
  local taken = math.min(times, math.floor((limit - used) / units))
  if taken < least then taken = 0 end
  if taken > 0 then
    if used == 0 then began = now end
    used, changed = used + taken * units, true
  end
  reply[#reply + 1] = taken
end
if used == 0 then began = 0 end
if changed and used > 0 then
  local text = string.format('%s:%.0f:%.0f:%.0f:%.0f', kind, used, began, limit, period)
  local lasts = math.ceil((ending(began) - now) / 1000) + 10000
  if reset ~= '' then
    -- As long as a process may have seen something before it.
    text, lasts = text .. ':' .. reset, math.max(lasts, redis.call('PTTL', KEYS[1]))
  end
  redis.call('SET', KEYS[1], text, 'PX', string.format('%.0f', lasts))
end
reply[2], reply[4] = used, began
return reply
