import {readFileSync} from 'node:fs';
import test from 'ava';
import fc from 'fast-check';
import type {BounceRule, Evidence} from '../../../src/mail/bounce.ts';
import {parseRuleTable, withOwnRules} from '../../../src/mail/bounce-rule-table.ts';
import {createClassify, plainText} from '../../../src/mail/classify-reply.ts';
import {phases} from '../../../src/mail/outcome.ts';
import {bounceRules, classify} from '../../helpers/classify.ts';
import {cpuCost} from '../../helpers/cpu-cost.ts';

const evidence: Evidence = {phase: 'rcpt', code: 550, enhanced: null, status: null, text: '', host: null};

function parse(...rules: unknown[]): readonly BounceRule[] {
	const read = parseRuleTable(JSON.stringify({rules}));
	if (!read.ok) {
		throw new Error(read.problems.join('\n'));
	}
	return read.rules;
}

function problemsOf(file: unknown): readonly string[] {
	const read = parseRuleTable(typeof file === 'string' ? file : JSON.stringify(file));
	return read.ok ? [] : read.problems;
}

test('applies a rule only if all of its conditions match', t => {
	const table: ReadonlyArray<readonly [when: object, holds: Partial<Evidence>, not: Partial<Evidence>]> = [
		[{text: 'wrong door'}, {text: 'Wrong DOOR!'}, {text: 'door wrong'}],
		[{text: ['one', 't.o']}, {text: 'a two'}, {text: 'three'}],
		[{text: 'boîte'}, {text: 'BOITE'}, {text: 'bote'}],
		[{text: 'no', unless: ['not', 'now']}, {text: 'no'}, {text: 'now'}],
		[{code: 550}, {code: 550}, {code: 551}],
		[{code: ['55x', '4xx']}, {code: 559}, {code: 541}],
		[{code: 'none'}, {code: null}, {code: 550}],
		[{class: 4}, {code: 450, enhanced: '5.0.0'}, {code: 550}],
		[{class: 5}, {code: null, status: '5.1.1'}, {code: null, status: '4.1.1'}],
		[{enhanced: 'x.1.1'}, {enhanced: '4.1.1'}, {enhanced: '5.1.10'}],
		[{enhanced: '5.1.1'}, {enhanced: '5.1.1'}, {enhanced: '4.1.1'}],
		[{enhanced: ['x.7.*']}, {enhanced: '5.7.509'}, {enhanced: '5.1.7'}],
		[{enhanced: ['x.7.600-649']}, {enhanced: '5.7.649'}, {enhanced: '5.7.650'}],
		[{enhanced: 'none'}, {}, {enhanced: '5.1.1'}],
		[{phase: ['rcpt', 'dot']}, {phase: 'dot'}, {phase: 'data'}],
		[{phase: 'rcpt'}, {phase: 'rcpt'}, {phase: null}],
		[{host: 'outlook.com'}, {host: 'a.Outlook.com.'}, {host: 'notoutlook.com'}],
		[{host: 'outlook.com', code: '550'}, {host: 'outlook.com'}, {host: 'outlook.com', code: 554}],
	];
	for (const [when, holds, not] of table) {
		const one = createClassify(parse({name: 'one', when, category: 'policy'}));
		t.is(one({...evidence, ...holds}).rule, 'one', JSON.stringify([when, holds]));
		t.is(one({...evidence, ...not}).rule, null, JSON.stringify([when, not]));
	}
});

test('applies the first matching rule, custom rules first; one with the same name replaces a built-in rule', t => {
	const shipped = parse(
		{name: 'a', when: {text: 'x'}, category: 'policy'},
		{name: 'b', when: {text: 'y'}, category: 'rate'},
	);
	const own = parse({name: 'b', when: {text: 'z'}, category: 'block'});
	const rules = withOwnRules(own, shipped);
	t.deepEqual(
		rules.map(({name, category}) => [name, category]),
		[
			['b', 'block'],
			['a', 'policy'],
		],
	);
	t.is(createClassify(rules)({...evidence, text: 'x y z'}).rule, 'b');
	t.is(createClassify(rules)({...evidence, text: 'y'}).rule, null);
});

test('reports every problem with its location', t => {
	const good = {name: 'good', when: {text: 'x'}, category: 'policy'};
	t.deepEqual(
		problemsOf({
			rule: [],
			rules: [
				good,
				7,
				{name: 'Bad Name', when: {text: 'x'}, category: 'policy'},
				good,
				{name: 'c', when: {text: 'x'}, category: 'gone'},
				{name: 'd', when: {}, category: 'policy'},
				{
					name: 'e',
					when: {texts: 'x', class: 6, code: '600', enhanced: '5.1', phase: 'late', host: 'a b'},
					category: 'policy',
				},
				{name: 'f', when: {text: '(', unless: []}, category: 'policy'},
				{name: 'g', when: {text: ['a', 'b.*c']}, category: 'policy'},
				{name: 'h', when: {text: '(a{1,9}b){1,9}'}, category: 'policy'},
				{name: 'i', when: {text: '[*+]\\*{1,3}'}, category: 'policy', note: 'x'},
				{
					name: 'j',
					when: {text: ['(?:a|a){0,30}b', '((a)?){30}b', '(?:a|b)?c{2}(?:d{3}|e)']},
					category: 'policy',
				},
				{name: 'l', when: {enhanced: 'x.7.649-600'}, category: 'policy'},
				{name: 'k', when: {text: ['.{0,100}a.{0,100}', '.{0,100}a.{0,100}b.{2}']}, category: 'policy'},
			],
		}).map(each => each.replace(/one of unknown_user .*/, 'one of …')),
		[
			'the file.rule: is not one of rules $comment',
			'rules[1]: is not an object',
			'rules[2].name: use 1 to 64 lowercase letters, digits, dots, - and _',
			'rules[3] (good): another rule has this name',
			'rules[4] (c).category: use one of …',
			'rules[5] (d).when: name at least one of class code enhanced phase host address text unless',
			'rules[6] (e).when.texts: is not one of class code enhanced phase host address text unless',
			'rules[6] (e).when.class: use 4 or 5',
			'rules[6] (e).when.code: use codes such as 550, 55x, 5xx, or none',
			'rules[6] (e).when.enhanced: use codes such as 5.1.1, x.1.1, x.7.*, x.7.600-649, or none',
			'rules[6] (e).when.phase: use route connect greeting ehlo starttls auth mail rcpt data dot',
			'rules[6] (e).when.host: use names such as outlook.com, which include their subdomains',
			'rules[7] (f).when.text: "(" is not a regular expression: Unterminated group',
			'rules[7] (f).when.unless: use regular expressions',
			'rules[8] (g).when.text: "b.*c" repeats without a bound: use {0,40} instead of * or +',
			'rules[9] (h).when.text: "(a{1,9}b){1,9}" repeats a group that has a repetition or a choice: write the group out',
			'rules[10] (i).note: is not one of name why when category',
			'rules[11] (j).when.text: "(?:a|a){0,30}b" repeats a group that has a repetition or a choice: write the group out',
			'rules[11] (j).when.text: "((a)?){30}b" repeats a group that has a repetition or a choice: write the group out',
			'rules[12] (l).when.enhanced: use codes such as 5.1.1, x.1.1, x.7.*, x.7.600-649, or none',
			'rules[13] (k).when.text: ".{0,100}a.{0,100}b.{2}" repeats too often: the product of its bounds exceeds 10000',
		],
	);
	t.regex(problemsOf('{"rules": [\n x]}').join(), /^the file: is not JSON(: see line 2)?$/);
	t.deepEqual(problemsOf([]), ['the file: is not a JSON object with a list `rules`']);
});

test('never throws on a malformed rules file', t => {
	const value = fc.oneof(fc.jsonValue(), fc.constantFrom('x', 'policy', '5.1.1', '(', 'a*', 4));
	const condition = fc.dictionary(
		fc.constantFrom('text', 'code', 'enhanced', 'host', 'phase', 'class', 'unless'),
		value,
	);
	const rule = fc.record({name: fc.constantFrom('a', 'b', 7), when: condition, category: value}, {requiredKeys: []});
	fc.assert(
		fc.property(
			fc.oneof(
				fc.string(),
				fc.json(),
				fc.array(rule).map(rules => JSON.stringify({rules})),
			),
			text => {
				const read = parseRuleTable(text);
				t.true(read.ok || read.problems.length > 0);
			},
		),
	);
});

test('the built-in table, which is loaded without validation, is valid', t => {
	const read = parseRuleTable(readFileSync('config/bounce-rules.json', 'utf8'));
	t.deepEqual(read, {ok: true, rules: bounceRules});
});

test('names each rule of the built-in table and repeats no conditions, which would hide a rule', t => {
	const file = JSON.parse(readFileSync('config/bounce-rules.json', 'utf8')) as {rules: Array<{when: unknown}>};
	const conditions = file.rules.map(({when}) => JSON.stringify(when));
	t.is(new Set(conditions).size, conditions.length);
	t.is(bounceRules.length, conditions.length);
});

/** Texts that make careless patterns backtrack. */
const hostile = [
	...['a', ' ', 'user ', 'mailbox ', 'recipient address ', 'sender ', 'domain ', 'message ', 'host ', 'is not '],
	...['550-', '5.1.1 ', 'a.', 'a@', '@', '<', '(', '[1.', 'said: ', 'smtp; ', '-> ', 'error from remote ', '<<< '],
	...['http://a', '0.', 'адрес ', '宛先', 'é', 'user mailbox recipient account address ', 'mail from ', 'not ', '\n'],
].map(piece => piece.repeat(Math.ceil(65_536 / piece.length)).slice(0, 65_536));

/** Milliseconds of CPU time. A few are needed; a pattern that backtracks over 64 KB takes many seconds. */
const maxMs = 2000;

test('matches each rule against any 64 KB of text within milliseconds', t => {
	for (const text of hostile) {
		const beginning = JSON.stringify(text.slice(0, 20));
		for (const {name, text: pattern, unless} of bounceRules) {
			const ms = cpuCost(() => [pattern?.test(text), unless?.test(text)], maxMs);
			t.true(ms <= maxMs, `${name}, ${beginning}: ${ms} ms`);
		}
		const all = () => [plainText(text), classify({...evidence, phase: null, code: null, text})];
		const ms = cpuCost(all, maxMs);
		t.true(ms <= maxMs, `${beginning}: ${ms} ms`);
	}
});

const words = fc.constantFrom(
	...[
		'user',
		'unknown',
		'mailbox',
		'does not exist',
		'5.1.1',
		'550',
		'450',
		'#5.1.1',
		'said: ',
		'<<< ',
		'smtp;',
		'-> ',
	],
	...['spam', 'quota', 'x@y.test', ' ', '<', 'host a.test[192.0.2.1]', 'sender', 'отключен', '宛先', '\n', '\0', '.'],
);
const texts = fc.array(fc.oneof(words, fc.string())).map(parts => parts.join(' '));
const orNull = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, {nil: null});
const anyEvidence = fc.record({
	phase: orNull(fc.constantFrom(...phases)),
	code: orNull(fc.integer({min: 200, max: 599})),
	enhanced: orNull(fc.constantFrom('5.1.1', '4.2.2', '5.0.0', '2.0.0', '5.7.1', 'x')),
	status: orNull(fc.constantFrom('5.1.1', '4.0.0', '5.0.0', '4.4.7')),
	text: texts,
	host: orNull(fc.constantFrom('mx.test', '', 'a.outlook.com.')),
});

test('classifies any evidence deterministically, and suppresses only by a rule', t => {
	fc.assert(
		fc.property(anyEvidence, one => {
			const judged = classify(one);
			t.deepEqual(classify(one), judged);
			t.is(judged.type === 'permanent', judged.suppresses);
			t.true(!judged.suppresses || judged.rule !== null);
		}),
	);
});

test('never suppresses on a reply before RCPT or a temporary one', t => {
	const quiet = texts.filter(text => !/5\d\d/.test(text));
	fc.assert(
		fc.property(anyEvidence, fc.constantFrom('connect', 'greeting', 'ehlo', 'mail'), (one, phase) => {
			t.false(classify({...one, phase: phase as Evidence['phase']}).suppresses);
		}),
	);
	fc.assert(
		fc.property(anyEvidence, quiet, fc.integer({min: 400, max: 499}), (one, text, code) => {
			t.false(classify({...one, code, text}).suppresses);
		}),
	);
});
