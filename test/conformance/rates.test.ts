import test from 'ava';
import type {Answer} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {clearOfMidnight, waitFor} from '../helpers/wait.ts';
import {accepted, codeOf, send, sendBody, type Usage} from './resources.ts';

const service = serviceOf(test, {
	workspaces: {main: [], quota: ['--monthly-quota', '3'], exact: ['--monthly-quota', '7'], unlimited: []},
});
const aDay = 86_400;

// Windows of a day, quotas of a month.
test.beforeEach(clearOfMidnight);

/** The three headers as numbers. */
function ratesOf({headers}: Answer<unknown>): {limit: number; remaining: number; reset: number} {
	const number = (name: string) => {
		const text = headers.get(name) ?? 'none';
		return /^\d+$/.test(text) ? Number(text) : Number.NaN;
	};
	return {
		limit: number('ratelimit-limit'),
		remaining: number('ratelimit-remaining'),
		reset: number('ratelimit-reset'),
	};
}

test('6000 a minute where nothing else was set; the window is aligned', async t => {
	conforms(t, 'rate.headers', 'messages.send.headers');
	const {main} = service().workspaces as {main: Workspace};
	const before = Date.now() / 1000;
	const rates = ratesOf(await send(main));
	const after = Date.now() / 1000;
	t.is(rates.limit, 6000);
	t.true(rates.remaining >= 0 && rates.remaining < 6000);
	t.is(rates.reset % 60, 0);
	t.true(rates.reset > before && rates.reset <= after + 60);
});

test('a key has its own window: every answer counts and tells, the next is refused', async t => {
	conforms(t, 'rate.per-key', 'rate.headers', 'rate.exceeded', 'errors.429.rate_limited', 'messages.send.headers');
	const {main} = service().workspaces as {main: Workspace};
	const limited = await service().keyed(main, '--rate-limit', `6/${aDay}`);
	const other = await service().keyed(main, '--rate-limit', `6/${aDay}`);
	const keyed = {'idempotency-key': 'rates'};
	const answers = [
		await limited.post('/v1/messages', sendBody(main), keyed),
		await limited.post('/v1/messages', sendBody(main), keyed),
		await limited.post('/v1/messages', sendBody(main, {to: 'nobody'})),
		await limited.post('/v1/messages', '{'),
		await limited.post('/v1/messages', '{}', {'content-type': 'text/plain'}),
		await limited.post('/v1/messages', sendBody(main, {from: 'stranger@main.example'})),
	];
	t.deepEqual(
		answers.map(({status}) => status),
		[202, 202, 422, 400, 415, 422],
	);
	t.deepEqual(
		answers.map(answer => ratesOf(answer).remaining),
		[5, 4, 3, 2, 1, 0],
	);
	for (const body of [sendBody(main), sendBody(main, {to: 'nobody'}), '{']) {
		const before = Date.now() / 1000;
		const refused = await limited.post('/v1/messages', body);
		const after = Date.now() / 1000;
		t.deepEqual([refused.status, codeOf(refused)], [429, 'rate_limited']);
		const {limit, remaining, reset} = ratesOf(refused);
		t.deepEqual([limit, remaining, reset % aDay], [6, 0, 0]);
		const wait = Number(refused.headers.get('retry-after'));
		t.true(wait > 0 && wait > reset - after - 1 && wait < reset - before + 1);
	}
	const replay = await limited.post('/v1/messages', sendBody(main), keyed);
	t.is(codeOf(replay), 'rate_limited');
	t.is((await limited.get('/v1/messages')).status, 200);
	t.is(ratesOf(await other.post('/v1/messages', sendBody(main))).remaining, 5);
	t.is((await send(main)).status, 202);
});

test('the next window begins anew', async t => {
	conforms(t, 'rate.headers', 'rate.exceeded');
	const {main} = service().workspaces as {main: Workspace};
	const limited = await service().keyed(main, '--rate-limit', '2/2');
	// At once: three one after the other may take longer than the window.
	const refused = await waitFor('the window is full', async () => {
		const answers = await Promise.all([1, 2, 3].map(() => limited.post('/v1/messages', sendBody(main))));
		return answers.find(({status}) => status === 429);
	});
	const {reset} = ratesOf(refused);
	t.is(reset % 2, 0);
	const next = await waitFor('the next window', async () => {
		const answer = await limited.post('/v1/messages', sendBody(main));
		return answer.status === 202 && answer;
	});
	t.true(ratesOf(next).reset > reset);
	t.true(Date.now() / 1000 >= reset);
});

test('batch items draw on a bucket of their own, one each', async t => {
	conforms(t, 'rate.per-key', 'batch.item');
	const {main} = service().workspaces as {main: Workspace};
	const limited = await service().keyed(main, '--rate-limit', `3/${aDay}`);
	const messages = Array.from({length: 5}, () => sendBody(main));
	const {status, body} = await limited.post<{data: Array<{status: string; error?: {code: string}}>}>(
		'/v1/messages/batch',
		{messages},
	);
	t.is(status, 200);
	t.deepEqual(
		body.data.map(each => each.error?.code ?? each.status),
		['accepted', 'accepted', 'accepted', 'rate_limited', 'rate_limited'],
	);
	t.is(ratesOf(await limited.post('/v1/messages', sendBody(main))).remaining, 2);
});

test('0 is no limit', async t => {
	conforms(t, 'rate.headers');
	const {main} = service().workspaces as {main: Workspace};
	const free = await service().keyed(main, '--rate-limit', '0');
	const before = Date.now() / 1000;
	const {limit, remaining, reset} = ratesOf(await free.post('/v1/messages', sendBody(main)));
	const after = Date.now() / 1000;
	t.deepEqual([limit, remaining], [1_000_000_000, 1_000_000_000]);
	t.true(reset > before + 59 && reset < after + 61);
});

test('the monthly quota: refused, with headers of the month; usage tells', async t => {
	conforms(t, 'rate.quota', 'rate.usage', 'errors.429.quota_exceeded', 'other.usage', 'messages.send.headers');
	const {quota} = service().workspaces as {quota: Workspace};
	for (const n of [1, 2, 3]) {
		const answer = await send(quota, {to: `user${n}@quota.example`, cc: ['copy@quota.example']});
		t.is(answer.status, 202);
		t.is(ratesOf(answer).limit, 6000);
	}
	const now = new Date();
	const nextMonth = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) / 1000;
	for (const fields of [{}, {to: 'user1@quota.example'}]) {
		const refused = await send(quota, {to: 'more@quota.example', ...fields});
		t.deepEqual([refused.status, codeOf(refused)], [429, 'quota_exceeded']);
		t.deepEqual(ratesOf(refused), {limit: 3, remaining: 0, reset: nextMonth});
		t.true(Number(refused.headers.get('retry-after')) > 0);
	}
	// What leaves no machine counts in no quota.
	await accepted(quota, {to: 'user@simulator.test'});
	await accepted(quota, {to: 'any@quota.example'}, quota.test);
	const {body} = await quota.live.get<Usage>('/v1/usage');
	const month = now.toISOString().slice(0, 7);
	t.like(body, {period: month, accepted: 3, test: 2, quota: 3, remaining: 0, reset: nextMonth});
	t.is(body.period_start, `${month}-01T00:00:00+00:00`);
	t.is(Date.parse(body.period_end) / 1000, nextMonth);
});

test('the quota is exact however many come at once', async t => {
	conforms(t, 'rate.quota');
	const {exact} = service().workspaces as {exact: Workspace};
	const answers = await Promise.all(Array.from({length: 40}, (_, n) => send(exact, {to: `user${n}@exact.example`})));
	t.is(answers.filter(({status}) => status === 202).length, 7);
	t.is(answers.filter(({status}) => status === 429).length, 33);
	t.like((await exact.live.get<Usage>('/v1/usage')).body, {accepted: 7, remaining: 0});
});

test('usage without a quota, and by day', async t => {
	conforms(t, 'rate.usage', 'other.usage');
	const {unlimited} = service().workspaces as {unlimited: Workspace};
	await accepted(unlimited, {to: 'one@usage.example'});
	t.like((await unlimited.live.get<Usage>('/v1/usage')).body, {accepted: 1, test: 0, quota: null, remaining: null});
	type Days = {days: Array<{day: string; accepted: number; delivered: number; bounced: number; complained: number}>};
	const today = await waitFor('it is counted', async () => {
		const {body} = await unlimited.live.get<Days>('/v1/usage?days=7');
		const found = body.days.find(({day}) => day === new Date().toISOString().slice(0, 10));
		return found !== undefined && found.delivered === 1 && found;
	});
	t.like(today, {accepted: 1, bounced: 0, complained: 0});
	for (const days of ['0', '91', 'x', '']) {
		t.is((await unlimited.live.get(`/v1/usage?days=${days}`)).status, 422, days);
	}
});
