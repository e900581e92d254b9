import test from 'ava';
import fc from 'fast-check';
import {announcedId, parsePolicy} from '../../src/deliver/sts-policies.ts';
import {anyChar} from '../helpers/any-char.ts';

test('reads the id from a record', t => {
	for (const text of [
		'v=STSv1; id=20160831085700Z;',
		'v=STSv1;id=20160831085700Z',
		'v=STSv1 ; id=20160831085700Z ; ',
		'v=STSv1; later=1; id=20160831085700Z; id=2',
	]) {
		t.is(announcedId([text]), '20160831085700Z', text);
	}

	t.is(announcedId(['v=spf1 -all', 'v=STSv1; id=1;', 'google-site-verification=x']), '1');
});

test('ignores a malformed, a missing and a duplicate record', t => {
	for (const texts of [
		[],
		['v=STSv1; id=1;', 'v=STSv1; id=1;'],
		['v=STSv2; id=1;'],
		['v=STSv1'],
		['v=STSv1;'],
		['v=stsv1; id=1;'],
		[' v=STSv1; id=1;'],
		['v=STSv1; id=;'],
		['v=STSv1; id=1-2;'],
		['v=STSv1; id=a b;'],
		['v=STSv1; id=1;; x=1;'],
		['v=STSv1; id=1; x;'],
		[`v=STSv1; id=${'1'.repeat(33)};`],
	]) {
		t.is(announcedId(texts), null, texts.join(' | '));
	}
});

const policy = ['version: STSv1', 'mode: enforce', 'mx: mail.example.com', 'mx: *.Example.NET', 'max_age: 604800'];

test('parses a policy with any line endings, in any order, ignoring unknown fields', t => {
	const read = {mode: 'enforce', mx: ['mail.example.com', '*.example.net'], maxAge: 604_800} as const;
	t.deepEqual(parsePolicy(policy.join('\n')), read);
	t.deepEqual(parsePolicy(`${policy.join('\r\n')}\r\n`), read);
	t.deepEqual(parsePolicy([...policy, 'future_field: what ever', 'mode: none', ''].join('\n')), read);
	t.deepEqual(parsePolicy(policy.join(' \n').replaceAll(': ', ':\t')), read);
	t.deepEqual(parsePolicy('version: STSv1\nmode: none\nmax_age: 86400\n'), {mode: 'none', mx: [], maxAge: 86_400});
	t.like(parsePolicy(policy.join('\n').replace('604800', '9999999999')), {maxAge: 31_557_600});
});

test('rejects an invalid policy', t => {
	const without = (name: string) => policy.filter(line => !line.startsWith(name)).join('\n');
	const changed = (from: string, to: string) => policy.join('\n').replace(from, to);
	const many = Array.from({length: 101}, (_, n) => `mx: mx${n}.example.com`);
	for (const text of [
		'',
		'<html>not found</html>',
		without('version'),
		without('mode'),
		without('max_age'),
		without('mx'),
		changed('STSv1', 'STSv2'),
		changed('enforce', 'enforced'),
		changed('604800', '-1'),
		changed('604800', '1e5'),
		changed('604800', '12345678901'),
		[...policy, ...many].join('\n'),
	]) {
		t.true('problem' in parsePolicy(text), text);
	}
});

test('ignores only the line if it is not a field or its mx is not a hostname', t => {
	const [version = '', mode = '', , second = '', age = ''] = policy;
	const names = [
		...['*.*.example.com', 'mail.*.com', '*', 'm*il.example.com', '192.0.2.1', '[192.0.2.1]', '2a00::1'],
		...['a..b', '', `${'a'.repeat(64)}.example.com`, 'mail example com', 'mail.example.com:25', 'mäil.example.com'],
		...['mail.example.com, mx2.example.com', 'mail.example.com # the first', '"mail.example.com"', '.example.com'],
	];
	for (const line of [...names.map(name => `mx: ${name}`), 'no field', '# a comment', ': x', ' mx: a.test', '-- ']) {
		t.like(
			parsePolicy([version, mode, line, second, age].join('\n')),
			{mode: 'enforce', mx: ['*.example.net']},
			line,
		);
		t.like(
			parsePolicy([version, mode, second, age, line].join('\n')),
			{mode: 'enforce', mx: ['*.example.net']},
			line,
		);
		t.true('problem' in parsePolicy([version, mode, line, age].join('\n')), line);
	}
});

test('rejects any text or parses it to a policy that reads the same again', t => {
	const line = fc.oneof(
		{
			weight: 8,
			arbitrary: fc.constantFrom(...policy, 'mode: none', 'max_age: 9999999999', 'mx: b.test.', 'x: 1', ''),
		},
		fc.string({unit: anyChar}),
	);
	const text = fc.array(line, {maxLength: 12}).map(lines => lines.join('\n'));
	let valid = 0;
	fc.assert(
		fc.property(text, body => {
			const read = parsePolicy(body);
			if ('problem' in read) {
				return;
			}

			valid += 1;
			t.true(read.maxAge >= 0 && read.maxAge <= 31_557_600);
			t.true(read.mode === 'none' || read.mx.length > 0);
			const fields = ['version: STSv1', `mode: ${read.mode}`, `max_age: ${read.maxAge}`];
			t.deepEqual(parsePolicy([...fields, ...read.mx.map(mx => `mx: ${mx}`)].join('\n')), read);
		}),
		{numRuns: 2000},
	);
	t.true(valid > 0);
});

test('parses any valid policy', t => {
	const label = fc.stringMatching(/^[a-z0-9](?:[a-z0-9-]{0,10}[a-z0-9])?$/);
	const host = fc
		.tuple(fc.boolean(), fc.array(label, {minLength: 1, maxLength: 4}))
		.map(([wild, labels]) => `${wild ? '*.' : ''}${labels.join('.')}.test`);
	fc.assert(
		fc.property(fc.array(host, {minLength: 1, maxLength: 100}), fc.nat(31_557_600), (mx, maxAge) => {
			const text = ['version: STSv1', 'mode: testing', `max_age: ${maxAge}`, ...mx.map(one => `mx: ${one}`)].join(
				'\r\n',
			);
			t.deepEqual(parsePolicy(text), {mode: 'testing', mx, maxAge});
		}),
	);
});

test('reads a well-formed id or none from any records', t => {
	const part = fc.constantFrom('v=STSv1', ';', ' ', 'id=', '1', 'x', '=', '\t');
	const text = fc.oneof(
		fc.string({unit: anyChar}),
		fc.array(part).map(parts => parts.join('')),
	);
	fc.assert(
		fc.property(fc.array(text, {maxLength: 3}), texts => {
			const id = announcedId(texts);
			t.true(id === null || /^[a-zA-Z0-9]{1,32}$/.test(id));
		}),
	);
});
