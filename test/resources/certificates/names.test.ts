import test from 'ava';
import type {DnsAnswer} from '../../../src/net/dns.ts';
import {findWishes, newNames} from '../../../src/resources/certificates/names.ts';

type Zone = Readonly<Record<string, readonly string[] | 'failed'>>;

/** Returns the names that need a certificate, and why others get none. */
async function wishes(zone: Zone, names: Partial<Parameters<typeof findWishes>[0]> = {}) {
	const ask =
		(isFour: boolean) =>
		async (name: string): Promise<DnsAnswer<string>> => {
			const found = zone[name];
			if (found === 'failed') {
				return {kind: 'failed', code: 'ETIMEOUT'};
			}
			const records = found?.filter(address => address.includes('.') === isFour) ?? [];
			return found === undefined
				? {kind: 'nxdomain'}
				: records.length > 0
					? {kind: 'found', records}
					: {kind: 'nodata'};
		};
	const found = await findWishes({
		...{
			hostname: 'mail.test',
			publicHost: 'www.test',
			linkHosts: [],
			mailDomains: [],
			former: [],
			isSure: () => false,
		},
		...{
			addresses: ['127.0.0.1', '10.0.0.5', '8.8.8.8', 'fe80::1%eth0'],
			resolver: {a: ask(true), aaaa: ask(false)},
		},
		...names,
	});
	return Object.fromEntries([...found].map(([name, wish]) => [name, typeof wish === 'string' ? wish : wish.no]));
}

const own = {'mail.test': ['192.0.2.1', '2001:db8::1'], 'www.test': ['192.0.2.2']};

test('wants certificates for the names in the settings if they are public', async t => {
	t.deepEqual(await wishes({}), {'mail.test': 'yes', 'www.test': 'yes'});
	t.deepEqual(await wishes({}, {hostname: 'mail', publicHost: '192.0.2.1'}), {});
	t.deepEqual(await wishes({}, {publicHost: '::1'}), {'mail.test': 'yes'});
	t.deepEqual(await wishes({}, {publicHost: null}), {'mail.test': 'yes'});
});

test('does not query DNS for names that are known to point to this machine', async t => {
	const isSure = (name: string) => name.startsWith('a.');
	t.like(await wishes(own, {linkHosts: ['a.test', 'b.test'], mailDomains: ['a.test'], isSure}), {
		...{'a.test': 'yes', 'b.test': 'b.test has no address in DNS', 'mta-sts.a.test': null},
	});
});

test('wants a former name while it points to this machine, and reports no error otherwise', async t => {
	const zone = {...own, 'here.test': ['192.0.2.2'], 'away.test': ['192.0.2.9']};
	t.like(await wishes(zone, {former: ['here.test', 'away.test']}), {'here.test': 'yes', 'away.test': null});
	const expected = await wishes(zone, {former: ['away.test'], linkHosts: ['away.test']});
	t.is(expected['away.test'], 'away.test points to 192.0.2.9, which is not this machine');
});

test('wants other names only if all their addresses, however written, are those of this machine', async t => {
	const linkHosts = ['a.test', 'b.test', 'c.test', 'd.test', 'e.test', 'f.test', 'g.test'];
	const zone = {
		...own,
		'a.test': ['192.0.2.2', '2001:DB8:0:0:0:0:0:1'],
		'b.test': ['192.0.2.1', '198.51.100.1'],
		'c.test': ['8.8.8.8'],
		'g.test': ['127.0.0.1'],
		'd.test': [],
		'f.test': 'failed',
		'mta-sts.in.test': ['192.0.2.1'],
		'mta-sts.out.test': ['198.51.100.1'],
	} as const;
	t.deepEqual(await wishes(zone, {linkHosts, mailDomains: ['in.test', 'out.test', 'none.test']}), {
		...{'mail.test': 'yes', 'www.test': 'yes', 'a.test': 'yes', 'c.test': 'yes', 'mta-sts.in.test': 'yes'},
		'b.test': 'b.test points to 198.51.100.1, which is not this machine',
		'd.test': 'd.test has no address in DNS',
		'e.test': 'e.test has no address in DNS',
		'f.test': 'unknown',
		'g.test': 'g.test points to 127.0.0.1, which is not this machine',
		'mta-sts.out.test': null,
		'mta-sts.none.test': null,
	});
});

test('does not report a name as pointing elsewhere while our own addresses are unknown', async t => {
	const zone = {
		'mail.test': 'failed',
		'www.test': ['192.0.2.2'],
		'a.test': ['192.0.2.1'],
		'b.test': ['192.0.2.2'],
	} as const;
	t.like(await wishes(zone, {linkHosts: ['a.test', 'b.test']}), {'a.test': 'unknown', 'b.test': 'yes'});
});

test('a name in the settings takes precedence over a link host', async t => {
	t.is((await wishes({...own, 'mail.test': ['192.0.2.1']}, {linkHosts: ['mail.test']}))['mail.test'], 'yes');
});

test('limits a workspace to five new names a day plus two per domain, and other names not at all', t => {
	const owners = new Map([
		['shop.test', 'wsp_a'],
		['news.shop.test', 'wsp_b'],
		['other.test', 'wsp_b'],
	]);
	const mayBeNew = newNames(owners, ['old.shop.test', 'mta-sts.bounce.shop.test', 'shopx.test']);
	const names = (end: string) => Array.from({length: 12}, (_, n) => `w${n}.${end}`);
	t.is(names('shop.test').filter(mayBeNew).length, 5, 'two of seven are used');
	t.is([...names('news.shop.test'), ...names('other.test')].filter(mayBeNew).length, 9, 'of the other workspace');
	t.is(names('lab.test').filter(mayBeNew).length, 12);
});

test('limits a workspace with a thousand domains to fifty new names a day', t => {
	const domains = Array.from({length: 1000}, (_, n) => `d${n}.test`);
	const mayBeNew = newNames(new Map([...domains.map(name => [name, 'wsp_a'] as const), ['shop.test', 'wsp_b']]), []);
	t.is(domains.flatMap(name => [`mta-sts.${name}`, `links.${name}`]).filter(mayBeNew).length, 50);
	t.is(['links.shop.test', 'mta-sts.shop.test'].filter(mayBeNew).length, 2, 'another workspace has its own');
});
