import test from 'ava';
import fc from 'fast-check';
import {isSpf, parseSpf} from '../../../src/resources/domains/spf.ts';

test('an SPF record starts with its version and a space, or consists of the version alone', t => {
	for (const text of ['v=spf1', 'v=spf1 -all', 'V=SPF1 a']) {
		t.true(isSpf(text), text);
	}
	for (const text of ['v=spf10 -all', 'v=spf1-all', ' v=spf1', 'spf2.0/pra -all', '']) {
		t.false(isSpf(text), text);
	}
});

test('parses mechanisms with qualifier, target and prefixes', t => {
	const parsed = parseSpf(
		'v=spf1  +MX ~a:Mail.Example/24//64 ip4:192.0.2.0/28 ip6:2001:db8::/32 ?include:_spf.x.example ptr exists:%{i}.x.example exp=why.x.example -all',
	);
	t.deepEqual(parsed, {
		ok: true,
		record: {
			mechanisms: [
				{name: 'mx', qualifier: '+', target: null, prefix: {ip4: 32, ip6: 128}},
				{name: 'a', qualifier: '~', target: 'Mail.Example', prefix: {ip4: 24, ip6: 64}},
				{name: 'ip4', qualifier: '+', target: '192.0.2.0', prefix: {ip4: 28, ip6: 128}},
				{name: 'ip6', qualifier: '+', target: '2001:db8::', prefix: {ip4: 32, ip6: 32}},
				{name: 'include', qualifier: '?', target: '_spf.x.example', prefix: {ip4: 32, ip6: 128}},
				{name: 'ptr', qualifier: '+', target: null, prefix: {ip4: 32, ip6: 128}},
				{name: 'exists', qualifier: '+', target: '%{i}.x.example', prefix: {ip4: 32, ip6: 128}},
				{name: 'all', qualifier: '-', target: null, prefix: {ip4: 32, ip6: 128}},
			],
			redirect: null,
		},
	});
	t.like(parseSpf('v=spf1 redirect=_spf.x.example'), {record: {mechanisms: [], redirect: '_spf.x.example'}});
});

for (const term of [
	'ipv4:192.0.2.1',
	'ip4:192.0.2.256',
	'ip4:192.0.2.1/33',
	'ip6:192.0.2.1',
	'ip6:2001:db8::/129',
	'ip6:fe80::1%eth0',
	'include',
	'include:',
	'exists',
	'all:x',
	'-all/24',
	'a:',
	'mx:x.example/',
	'192.0.2.1',
	'--all',
]) {
	test(`rejects the term ${term}`, t => {
		t.deepEqual(parseSpf(`v=spf1 ${term} -all`), {ok: false, problem: `"${term}" is not a valid term`});
	});
}

test('accepts redirect only once, with a target', t => {
	t.like(parseSpf('v=spf1 redirect=a.example redirect=b.example'), {ok: false});
	t.like(parseSpf('v=spf1 redirect='), {ok: false});
});

test('limits a record to 100 terms and 4,096 octets, and a name to 253', t => {
	const record = (...terms: readonly string[]) => parseSpf(['v=spf1', ...terms].join(' '));
	const terms = (length: number) => Array.from({length}, (_, n) => `ip4:192.0.2.${n}`);
	t.true(record(...terms(100)).ok);
	t.deepEqual(record(...terms(101)), {ok: false, problem: 'it has more than 100 terms'});
	t.deepEqual(record(...Array.from({length: 101}, () => 'x=y')), {ok: false, problem: 'it has more than 100 terms'});
	t.true(record(...Array.from({length: 200}, () => '')).ok, 'spaces are no terms');
	t.deepEqual(record('é'.repeat(2045)), {ok: false, problem: 'it is longer than 4096 octets'});
	t.deepEqual(record(`include:${'a'.repeat(254)}`), {
		ok: false,
		problem: `"include:${'a'.repeat(92)}" is not a valid term`,
	});
});

test('parses or rejects any text as an SPF record', t => {
	const term = fc.oneof(
		fc.string(),
		fc
			.tuple(fc.constantFrom('a', 'mx', 'ip4', 'ip6', 'include', 'all', 'redirect='), fc.string())
			.map(pair => pair.join(':')),
	);
	fc.assert(
		fc.property(fc.array(term), terms => {
			const parsed = parseSpf(['v=spf1', ...terms].join(' '));
			t.true(
				parsed.ok
					? parsed.record.mechanisms.every(({prefix}) => prefix.ip4 <= 32 && prefix.ip6 <= 128)
					: parsed.problem !== '',
			);
		}),
	);
});
