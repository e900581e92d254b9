import test from 'ava';
import {createResolver} from '../../src/dns/resolver.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';

test('a name that fails is asked again, unless failures are kept too', async t => {
	const {server, queries} = await startFakeDns(t, {'slow.example': 'servfail'});
	for (const [keepFailed, count] of [
		[false, 3],
		[true, 1],
	] as const) {
		const resolver = createResolver({servers: [server], timeoutMs: 60_000, tries: 1, keepFailed, clock: systemClock});
		for (let n = 0; n < 3; n++) {
			t.like(await resolver.txt('slow.example'), {kind: 'failed', code: 'ESERVFAIL'});
		}
		t.is(queries.splice(0).length, count);
	}
});
