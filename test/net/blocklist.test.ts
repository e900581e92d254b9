import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {systemClock} from '../../src/kit/clock.ts';
import {askBlocklist, type Blocklist, delistLink, doesList, nameOnList} from '../../src/net/blocklist.ts';
import {createResolver} from '../../src/net/resolver.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';

const list: Blocklist = {
	zone: 'list.test',
	name: 'The List',
	kind: 'ip',
	listed: ['127.0.0.2', '127.0.0.4-11'],
	refused: ['127.255.255.252-255', '127.0.0.1'],
	delist: 'https://list.test/remove?what={source}',
	test: '',
};
const domains: Blocklist = {...list, zone: 'names.test', kind: 'domain', listed: ['127.0.1.2-99']};
const works: Zone = {
	'2.0.0.127.list.test': {a: ['127.0.0.2', '127.0.0.4']},
	'test.names.test': {a: ['127.0.1.2']},
};

async function asking(t: ExecutionContext, zone: Zone, of = list) {
	const dns = await startFakeDns(t, zone);
	const resolver = createResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock: systemClock});
	return {dns, ask: async (source: string) => await askBlocklist(of, source, resolver)};
}

test('reports whether an address is listed, with the reason the list gives', async t => {
	const {ask, dns} = await asking(t, {
		...works,
		'7.113.0.203.list.test': {a: ['127.0.0.11'], txt: ['see https://list.test/7', 'or\u0007 ask']},
		'8.113.0.203.list.test': {a: ['127.0.0.2'], fail: {TXT: 'servfail'}},
		[nameOnList('2001:db8::7', 'list.test')]: {a: ['127.0.0.4'], txt: [['x'.repeat(200), 'y'.repeat(200)]]},
		'10.113.0.203.list.test': {},
	});
	t.deepEqual(await ask('203.0.113.7'), {
		...{state: 'listed', answer: '127.0.0.11', reason: 'see https://list.test/7 or  ask'},
	});
	t.deepEqual(await ask('203.0.113.8'), {state: 'listed', answer: '127.0.0.2', reason: null});
	const six = await ask('2001:db8::7');
	t.like(six, {state: 'listed', answer: '127.0.0.4'});
	t.is(six.reason?.length, 300);
	for (const clear of ['203.0.113.9', '203.0.113.10', '2001:db8::8']) {
		t.deepEqual(await ask(clear), {state: 'clear', answer: null, reason: null});
	}
	t.false(dns.queries.includes('TXT 9.113.0.203.list.test'), 'words are asked for where there is a listing');
});

test('does not treat a refused query as a listing', async t => {
	const refused = {state: 'refused', reason: 'the list refuses this resolver'};
	const {ask} = await asking(t, {
		...works,
		'7.113.0.203.list.test': {a: ['127.255.255.254']},
		'8.113.0.203.list.test': {a: ['127.0.0.1']},
		'9.113.0.203.list.test': 'refused',
	});
	t.deepEqual(await ask('203.0.113.7'), {...refused, answer: '127.255.255.254'} as never);
	t.deepEqual(await ask('203.0.113.8'), {...refused, answer: '127.0.0.1'} as never);
	t.deepEqual(await ask('203.0.113.9'), {...refused, answer: 'EREFUSED'} as never);
	const {ask: askOther} = await asking(t, {'2.0.0.127.list.test': {a: ['127.255.255.255']}});
	t.deepEqual(await askOther('203.0.113.7'), {...refused, answer: '127.255.255.255'} as never);
});

test('treats a missing or undocumented response as unknown', async t => {
	const {ask} = await asking(t, {
		...works,
		'7.113.0.203.list.test': 'servfail',
		'8.113.0.203.list.test': {a: ['192.0.2.80']},
		'9.113.0.203.list.test': {a: ['127.0.0.3']},
		'10.113.0.203.list.test': {a: ['127.0.0.111']},
	});
	t.deepEqual(await ask('203.0.113.7'), {state: 'unknown', answer: 'ESERVFAIL', reason: 'no response (ESERVFAIL)'});
	for (const [source, answer] of [
		['203.0.113.8', '192.0.2.80'],
		['203.0.113.9', '127.0.0.3'],
		['203.0.113.10', '127.0.0.111'],
	] as const) {
		t.deepEqual(await ask(source), {state: 'unknown', answer, reason: `the list returned ${answer}`});
	}
});

test('distrusts a list without its test entry or with every address (RFC 5782 §5)', async t => {
	const hit = {'7.113.0.203.list.test': {a: ['127.0.0.2']}};
	const {ask: askEmpty} = await asking(t, hit);
	const empty = 'the list lacks its test entry (RFC 5782)';
	t.deepEqual(await askEmpty('203.0.113.7'), {state: 'unknown', answer: '127.0.0.2', reason: empty});
	t.deepEqual(await askEmpty('203.0.113.8'), {state: 'unknown', answer: null, reason: empty});
	const {ask: askWild} = await asking(t, {...works, ...hit, '1.0.0.127.list.test': {a: ['127.0.0.2']}});
	t.like(await askWild('203.0.113.7'), {state: 'unknown', reason: 'the list lists everything (RFC 5782)'});
	// A parked zone resolves all names to a web server.
	const parked = {a: ['192.0.2.80']};
	const {ask: askParked} = await asking(t, {
		...{'7.113.0.203.list.test': parked, '2.0.0.127.list.test': parked, '1.0.0.127.list.test': parked},
	});
	t.like(await askParked('203.0.113.7'), {state: 'unknown', answer: '192.0.2.80'});
});

test('looks up a domain by its name, and supports a custom test entry', async t => {
	const hit = {'shop.example.names.test': {a: ['127.0.1.4']}};
	const {ask} = await asking(t, {...works, ...hit}, domains);
	t.like(await ask('shop.example'), {state: 'listed', answer: '127.0.1.4'});
	t.like(await ask('fine.example'), {state: 'clear'});
	const zone = {...hit, 'always.example.names.test': {a: ['127.0.1.2']}};
	t.like(await (await asking(t, zone, domains)).ask('shop.example'), {state: 'unknown'});
	t.like(await (await asking(t, zone, {...domains, test: 'always.example'})).ask('shop.example'), {state: 'listed'});
	const wild = {...works, ...hit, 'invalid.names.test': {a: ['127.0.1.2']}};
	t.like(await (await asking(t, wild, domains)).ask('shop.example'), {state: 'unknown'});
});

test('queries each list only for the kinds of entries it has', t => {
	const kinds = ['ip', 'ipv4', 'domain'] as const;
	const of = (source: string) => kinds.filter(kind => doesList({...list, kind}, source)).join();
	t.deepEqual(['203.0.113.7', '2001:db8::7', 'shop.example'].map(of), ['ip,ipv4', 'ip', 'domain']);
	t.is(delistLink(list, '2001:db8::7'), 'https://list.test/remove?what=2001%3Adb8%3A%3A7');
});

test('property: builds the name on a list by reversing the address', t => {
	fc.assert(
		fc.property(fc.ipV4(), address => {
			const labels = nameOnList(address, 'list.test').split('.');
			t.deepEqual(labels.slice(0, 4).reverse(), address.split('.'));
			t.deepEqual(labels.slice(4), ['list', 'test']);
		}),
	);
	fc.assert(
		fc.property(fc.array(fc.integer({min: 0, max: 0xffff}), {minLength: 8, maxLength: 8}), words => {
			const address = words.map(word => word.toString(16)).join(':');
			const labels = nameOnList(address, 'list.test').split('.');
			const digits = words.map(word => word.toString(16).padStart(4, '0')).join('');
			t.is(labels.length, 34);
			t.is(labels.slice(0, 32).reverse().join(''), digits);
		}),
	);
});
