import test from 'ava';
import type {Resolver} from '../../../src/net/dns.ts';
import {compileSpf} from '../../../src/resources/domains/spf.ts';
import type {Zone} from '../../helpers/fake-dns.ts';
import {resolverOf} from '../../helpers/resolvers.ts';

const zone: Zone = {
	'plain.example': {txt: ['other', 'v=spf1 ip4:192.0.2.0/28 ip6:2001:db8::/32 -all']},
	'soft.example': {txt: ['v=spf1 ~all']},
	'open.example': {txt: ['v=spf1 ip4:198.51.100.1']},
	'none.example': {txt: ['hello']},
	'two.example': {txt: ['v=spf1 -all', 'v=spf1 +all']},
	'bad.example': {txt: ['v=spf1 ipv4:192.0.2.1 -all']},
	'hosts.example': {a: ['192.0.2.7'], mx: [[10, 'mx.hosts.example']], txt: ['v=spf1 a mx -all']},
	'mx.hosts.example': {a: ['192.0.2.8'], aaaa: ['2001:db8::8']},
	'include.example': {txt: ['v=spf1 include:plain.example ?all']},
	'redirect.example': {txt: ['v=spf1 redirect=plain.example']},
	'lost.example': {txt: ['v=spf1 include:nix.example -all']},
	'loop.example': {txt: ['v=spf1 include:loop.example -all']},
	'many.example': {txt: [`v=spf1 ${Array.from({length: 11}, (_, n) => `include:i${n}.example`).join(' ')} -all`]},
	'ten.example': {txt: [`v=spf1 ${Array.from({length: 10}, (_, n) => `include:i${n}.example`).join(' ')} -all`]},
	...Object.fromEntries(Array.from({length: 11}, (_, n) => [`i${n}.example`, {txt: ['v=spf1 ip4:203.0.113.1']}])),
	'void.example': {txt: ['v=spf1 a:n1.example a:n2.example a:n3.example ip4:192.0.2.1 -all']},
	'exists.example': {txt: ['v=spf1 exists:plain.example exists:hosts.example -all']},
	'macro.example': {txt: ['v=spf1 exists:%{i}.example include:%{d}.x.example ptr -all']},
	'broken.example': {txt: ['v=spf1 include:fail.example -all']},
	'fail.example': 'servfail',
};

const cases: ReadonlyArray<readonly [domain: string, ip: string, result: string, why?: RegExp]> = [
	['plain.example', '192.0.2.15', 'pass'],
	['plain.example', '192.0.2.16', 'fail'],
	['plain.example', '2001:db8:1::1', 'pass'],
	['soft.example', '192.0.2.1', 'softfail'],
	['open.example', '192.0.2.1', 'neutral'],
	['none.example', '192.0.2.1', 'none'],
	['nix.example', '192.0.2.1', 'none'],
	['two.example', '192.0.2.1', 'permerror', /two\.example has 2 SPF records/],
	['bad.example', '192.0.2.1', 'permerror', /"ipv4:192\.0\.2\.1" is not a valid term/],
	['hosts.example', '192.0.2.7', 'pass'],
	['hosts.example', '192.0.2.8', 'pass'],
	['hosts.example', '2001:db8::8', 'pass'],
	['hosts.example', '192.0.2.9', 'fail'],
	['include.example', '192.0.2.1', 'pass'],
	['include.example', '203.0.113.1', 'neutral'],
	['redirect.example', '192.0.2.1', 'pass'],
	['redirect.example', '203.0.113.1', 'fail'],
	['lost.example', '192.0.2.1', 'permerror', /nix\.example, which it refers to, has no SPF record/],
	['loop.example', '192.0.2.1', 'permerror', /more than 10 DNS lookups/],
	['many.example', '192.0.2.1', 'permerror', /more than 10 DNS lookups/],
	['ten.example', '192.0.2.1', 'fail'],
	['void.example', '192.0.2.1', 'permerror', /more than 2 of its names have no records, such as n3\.example/],
	['exists.example', '192.0.2.1', 'pass'],
	['macro.example', '192.0.2.1', 'fail'],
	['broken.example', '192.0.2.1', 'temperror', /DNS did not answer for fail\.example/],
];

for (const [domain, ip, kind, why] of cases) {
	test(`SPF of ${domain} for ${ip}: ${kind}`, async t => {
		const result = await compileSpf(await resolverOf(t, zone), domain)(ip);
		t.is(result.kind, kind as typeof result.kind);
		t.regex('why' in result ? result.why : '', why ?? /^$/);
	});
}

test('looks up each name once for many addresses, with separate limits for each address', async t => {
	const resolver = await resolverOf(t, zone);
	const asked: string[] = [];
	function noted(type: string, name: string): string {
		asked.push(`${type} ${name}`);
		return name;
	}
	const counting: Resolver = {
		...resolver,
		txt: name => resolver.txt(noted('TXT', name), true),
		a: name => resolver.a(noted('A', name), true),
	};
	const ten = compileSpf(counting, 'ten.example');
	const broken = compileSpf(counting, 'broken.example');
	const hosts = compileSpf(counting, 'hosts.example');
	for (let n = 0; n < 50; n++) {
		t.is((await ten(`192.0.2.${n}`)).kind, 'fail');
		t.is((await broken(`192.0.2.${n}`)).kind, 'temperror');
		t.is((await hosts(`192.0.2.${n}`)).kind, n === 7 || n === 8 ? 'pass' : 'fail');
	}
	t.deepEqual(asked.length, new Set(asked).size);
	t.is((await ten('others')).kind, 'fail', 'what is no address matches no network');
	t.is((await compileSpf(counting, 'plain.example')('2001:db8::ffff')).kind, 'pass');
});
