-- Buckets, for the scripts that are put behind this one: take.lua and give_back.lua. A record is as in script.lua.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- What is left of a debt. If the clock was set back, or is another one, nothing flows back, and time goes on from here.
local function left(owed, at, rate)
  if at > now then return owed end
  if now - at >= owed / rate then return 0 end
  return owed - (now - at) * rate
end
-- Returns a bucket in parts of this quota, or nothing if the value of the record is not one of flowgate.
local function read(key, count, period)
  local bucket = {key = key, count = count, period = period, debt = 0, void = 0, reset = 0, given = ''}
  local record = redis.call('GET', key)
  if not record then return bucket end
  local was, at, old_count, old_period, marks = string.match(record, '^(%d+):(%d+):(%d+):(%d+)(.*)$')
  if not was then return nil end
  if marks ~= '' then
    local void, reset, given = string.match(marks, '^:(%d+):(%d+)([:,%d]*)$')
    if not void then return nil end
    bucket.void, bucket.reset, bucket.given = void + 0, reset + 0, given
  end
  at, old_count, old_period = at + 0, old_count + 0, old_period + 0
  bucket.debt = left(was + 0, at, old_count)
  bucket.same = old_count == count and old_period == period
  bucket.changed = at > now or not bucket.same
  if old_period ~= period then
    -- Whole units are exact. The rest of one is rounded up, and never less than exact.
    local units = math.floor(bucket.debt / old_period)
    local rest = (bucket.debt - units * old_period) / old_period * period
    bucket.debt = math.min(units * period + math.ceil(rest + rest / 2 ^ 50), 2 ^ 53 - 1)
  end
  return bucket
end
-- Stores a bucket for as long as a process may remember this debt.
local function store(bucket, owed)
  local text = string.format('%.0f:%.0f:%.0f:%.0f', bucket.debt, now, bucket.count, bucket.period)
  local lasts = math.ceil(owed / bucket.count / 1000) + 10000
  if bucket.void > 0 then
    text = text .. string.format(':%.0f:%.0f', bucket.void, bucket.reset) .. bucket.given
    lasts = math.max(lasts, redis.call('PTTL', bucket.key))
  end
  redis.call('SET', bucket.key, text, 'PX', string.format('%.0f', lasts))
end
local function foreign(key)
  return redis.error_reply('FOREIGN the value of ' .. key .. ' is not one of flowgate')
end
