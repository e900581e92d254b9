import test from 'ava';
import {systemClock} from '../../src/kit/clock.ts';
import {AnswerCache, createResolver} from '../../src/net/resolver.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';

test('queries a failing name again, unless failures are cached too', async t => {
	const {server, queries} = await startFakeDns(t, {'slow.example': 'servfail'});
	for (const [keepFailed, count] of [
		[false, 3],
		[true, 1],
	] as const) {
		const resolver = createResolver({
			servers: [server],
			timeoutMs: 60_000,
			tries: 1,
			shouldCacheFailures: keepFailed,
			clock: systemClock,
		});
		for (let n = 0; n < 3; n++) {
			t.like(await resolver.txt('slow.example'), {kind: 'failed', code: 'ESERVFAIL'});
		}
		t.is(queries.splice(0).length, count);
	}
});

test('finds a TXT record among dozens of others', async t => {
	const texts = [...Array.from({length: 40}, (_, n) => `site-verification=${n}`), 'v=spf1 -all'];
	const {server} = await startFakeDns(t, {'large.example': {txt: texts}});
	const resolver = createResolver({servers: [server], timeoutMs: 60_000, tries: 1, clock: systemClock});
	const answer = await resolver.txt('large.example');
	t.true(answer.kind === 'found' && answer.records.includes('v=spf1 -all'));
});

test('large responses evict others from the cache, which holds about 20 MB at most', async t => {
	const cache = new AnswerCache(systemClock);
	let asked = 0;
	const recall = (name: string, octets: number) =>
		cache.recall(name, async () => {
			asked++;
			return {answer: {kind: 'found', records: ['x'.repeat(octets)]}, ttl: 3600};
		});
	await recall('small', 100);
	for (let n = 0; n < 400; n++) {
		await recall(`large ${n}`, 64 * 1024);
	}
	await recall('large 399', 64 * 1024);
	t.is(asked, 401, 'the last one is cached');
	await recall('small', 100);
	await recall('large 0', 64 * 1024);
	t.true(asked > 401, 'the first ones are not');
});
