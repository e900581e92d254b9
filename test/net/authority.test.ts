import test, {type ExecutionContext} from 'ava';
import {systemClock} from '../../src/kit/clock.ts';
import {Authority} from '../../src/net/resolver.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';

/** Starts a resolver whose zone delegates to another server. */
async function prepare(
	t: ExecutionContext,
	{own, above, allowPrivate}: {own: Zone; above: (ip: string) => Zone; allowPrivate: boolean},
) {
	const server = await startFakeDns(t, own);
	const [ip = '', port] = server.server.split(':');
	const parent = await startFakeDns(t, above(ip));
	const options = {servers: [parent.server], timeoutMs: 60_000, port: Number(port), allowPrivate, clock: systemClock};
	const authority = new Authority(options);
	return {authority: (domain: string) => authority.find(domain), own: server};
}

const own: Zone = {'shop.example': {}, '_mailctl.shop.example': {txt: ['here']}, 'mail.shop.example': {}};
const above = (ip: string): Zone => ({'shop.example': {ns: ['ns.shop.example']}, 'ns.shop.example': {a: [ip]}});

test('reads a record from the servers of the zone before a resolver knows it', async t => {
	const {authority} = await prepare(t, {own, above, allowPrivate: true});
	const resolver = await authority('shop.example');
	t.deepEqual(await resolver?.txt('_mailctl.shop.example'), {kind: 'found', records: ['here']});
});

test('uses the parent zone for a domain without its own zone', async t => {
	const {authority} = await prepare(t, {own, above, allowPrivate: true});
	t.truthy(await authority('mail.shop.example'));
	t.is(await authority('other.example'), null);
});

test('a foreign zone cannot point to our internal network', async t => {
	const {authority, own: server} = await prepare(t, {own, above, allowPrivate: false});
	t.is(await authority('shop.example'), null);
	t.deepEqual(server.queries, []);
});

test('treats servers that do not respond as missing', async t => {
	const {authority} = await prepare(t, {own: {'shop.example': 'refused'}, above, allowPrivate: true});
	t.is(await authority('shop.example'), null);
});
