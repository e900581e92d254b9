import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {logged} from '../helpers/daemon.ts';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';

const rule = (category: string) => ({
	rules: [{name: 'the-door', when: {text: 'wrong door'}, category}],
});

test('own rules precede the built-in ones; SIGHUP reloads them in all threads unless they are invalid', async t => {
	const {program} = await startMailHosts(
		t,
		{'mx.a.example': {rcpt: '550 5.1.1 wrong door'}},
		{},
		{MAILCTL_BOUNCE_RULES_FILE: 'rules.json', MAILCTL_SENDERS: '2'},
	);
	const file = join(program.folder, 'rules.json');
	writeFileSync(file, JSON.stringify(rule('policy')));
	const daemon = await program.serve();
	const {send, show, until} = await clientOf(program, daemon);
	const suppressed = async (to: string) =>
		(await program.cli<Array<{recipient: string}>>('suppression', 'list')).some(({recipient}) => recipient === to);
	const read = async (to: string) => {
		const id = await send(to);
		await until(id, 'bounced');
		return (await show(id)).events.at(-1)?.detail?.category;
	};
	t.is(await read('one@a.example'), 'policy');
	t.false(await suppressed('one@a.example'));

	writeFileSync(file, '{"rules": [{"name": "the-door"}]}');
	daemon.signal('SIGHUP');
	const [refusal] = await logged(program, 'reload_refused');
	t.regex(JSON.stringify(refusal), /rules\.json.{1,3} rules\[0\] \(the-door\)\.category: use one of/);
	t.is(await read('two@a.example'), 'policy');

	writeFileSync(file, JSON.stringify(rule('disabled')));
	daemon.signal('SIGHUP');
	await logged(program, 'reloaded');
	for (const to of ['three@a.example', 'four@a.example', 'five@a.example']) {
		t.is(await read(to), 'disabled');
	}
	t.true(await suppressed('three@a.example'));
	t.is(await daemon.stop(), 0);
});

test('an invalid rules file makes serve and config check exit with 78 and report every problem', async t => {
	const {program} = await startMailHosts(t, {}, {}, {MAILCTL_BOUNCE_RULES_FILE: 'rules.json'});
	writeFileSync(
		join(program.folder, 'rules.json'),
		JSON.stringify({rules: [7, {name: 'a', when: {}, category: 'rate'}]}),
	);
	for (const command of [['config', 'check'], ['serve']]) {
		const {code, stderr} = await program.run(...command);
		t.is(code, 78);
		t.regex(stderr, /rules\.json" rules\[0\]: is not an object\n/);
		t.regex(stderr, /rules\.json" rules\[1\] \(a\)\.when: name at least one of/);
	}
});
