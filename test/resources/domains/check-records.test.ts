import test, {type ExecutionContext} from 'ava';
import type {Resolver} from '../../../src/net/dns.ts';
import {checkDomainRecords} from '../../../src/resources/domains/check-records.ts';
import type {DomainRecord} from '../../../src/resources/domains/domain-records.ts';
import type {Zone} from '../../helpers/fake-dns.ts';
import {resolverOf} from '../../helpers/resolvers.ts';

const record: DomainRecord = {
	...{type: 'TXT', name: '_mailctl.shop.example', value: 'mailctl-verification=abc', purpose: 'ownership'},
	...{required: true, found: [], key: null, alike: [], note: null, ready: true},
};
const right: Zone = {[record.name]: {txt: [record.value]}};
const wrong: Zone = {[record.name]: {txt: ['mailctl-verification=x']}};
const silent: Zone = {[record.name]: 'servfail'};

async function check(t: ExecutionContext, zones: readonly Zone[], authority: Zone | null = null) {
	let asked = 0;
	const sources = {
		resolvers: await Promise.all(zones.map(zone => resolverOf(t, zone))),
		async authority(): Promise<Resolver | null> {
			asked++;
			return authority === null ? null : await resolverOf(t, authority);
		},
	};
	const [checked] = await checkDomainRecords('shop.example', [record], sources);
	const {state, ok, isPropagated, found} = checked ?? {};
	return {state, ok, everywhere: isPropagated, found: found?.length, asked};
}

test('accepts a record that one resolver shows', async t => {
	t.deepEqual(await check(t, [right, right]), {state: 'ok', ok: true, everywhere: true, found: 1, asked: 0});
	t.deepEqual(await check(t, [{}, right]), {state: 'ok', ok: true, everywhere: false, found: 1, asked: 0});
	t.like(await check(t, [silent, right]), {state: 'ok', everywhere: true, asked: 0});
});

test('queries the zone itself if no resolver shows the record', async t => {
	t.deepEqual(await check(t, [{}, {}], right), {state: 'ok', ok: true, everywhere: false, found: 1, asked: 1});
	t.like(await check(t, [{}, {}]), {state: 'missing', ok: false, asked: 1});
	t.like(await check(t, [{}], wrong), {state: 'different', found: 1});
});

test('prefers a response to a missing one', async t => {
	t.like(await check(t, [silent, {}]), {state: 'missing', ok: false});
	t.like(await check(t, [{}, wrong]), {state: 'different', found: 1});
	t.deepEqual(await check(t, [silent]), {state: 'unknown', ok: false, everywhere: false, found: 0, asked: 1});
});
