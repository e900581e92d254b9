import {resolve} from 'node:path';
import test from 'ava';
import {dkimVerify} from 'mailauth/lib/dkim/verify.js';
import {clientOf, headerOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';
import {waitFor} from '../helpers/wait.ts';

type DomainRecord = {readonly name: string; readonly value: string; readonly purpose: string};

let begun = 0;
const lab = oncePerFile(test, async scope => {
	const hosts = await startMailHosts(
		scope,
		{
			'mx.cap.example': {},
			'mx.mixed.example': {rcpt: line => (line.includes('<bad') ? '550 5.1.1 no such user' : undefined)},
			'mx.leaves.example': {
				mail() {
					begun += 1;
					return begun % 5 === 0 ? '421 4.3.2 closing' : undefined;
				},
			},
			'mx.ascii.example': {extensions: ['PIPELINING', '8BITMIME']},
			'mx.utf8.example': {extensions: ['PIPELINING', 'SMTPUTF8', '8BITMIME', 'DSN']},
			'mx.strict.example': {},
			'mx.lax.example': {lax: true},
		},
		{},
		{MAILCTL_RETRY_SCHEDULE: '200ms,500ms*'},
	);
	return {...hosts, ...(await clientOf(hosts.program, await hosts.program.serve()))};
});

/** The verdict of mailauth on each signature, such as `mc1: pass`. */
async function verify(mail: Buffer, records: readonly DomainRecord[]): Promise<string[]> {
	const {results} = await dkimVerify(mail, {
		resolver: async name => {
			const record = records.find(one => one.name.replace(/\.$/, '') === name);
			if (record === undefined) {
				throw Object.assign(new Error('no such record'), {code: 'ENOTFOUND'});
			}
			return [
				record.value
					.replace(/" "/g, '')
					.replace(/"/g, '')
					.match(/.{1,255}/g) ?? [],
			];
		},
	});
	return results.map(({selector, status}) => `${selector}: ${status.result}`);
}

/** The header fields that each signature covers, in lower case. */
function covered(mail: Buffer): string[][] {
	const head = mail.toString('latin1').split('\r\n\r\n')[0] ?? '';
	const fields = head.split(/\r\n(?![ \t])/).filter(field => /^DKIM-Signature:/i.test(field));
	return fields.map(field => (/[;\s]h=([^;]*)/.exec(field)?.[1] ?? '').toLowerCase().split(/[:\s]+/));
}

test('reuses sessions with RSET, survives a 421 in the middle, and sends at most fifty messages each', async t => {
	const {host, send, until, show} = lab();
	const all = async (domain: string, names: readonly string[]) =>
		await Promise.all(names.map(name => send(`${name}@${domain}`)));
	const users = (count: number) => Array.from({length: count}, (_, n) => `user${n}`);

	const capped = host('mx.cap.example');
	await all('cap.example', users(130));
	await waitFor('all arrived', () => capped.count() === 130);
	const mails = capped.connections.map(({commands}) => commands.filter(line => line.startsWith('MAIL')).length);
	t.true(
		mails.every(count => count <= 50),
		`mails by connection: ${mails}`,
	);
	t.true(
		mails.some(count => count > 1),
		`mails by connection: ${mails}`,
	);

	const mixed = host('mx.mixed.example');
	const ids = await all('mixed.example', [...users(10), 'bad1', 'bad2', 'bad3']);
	await until(ids.slice(0, 10), 'delivered');
	await until(ids.slice(10), 'bounced');
	t.is(mixed.count(), 10);
	const refused = mixed.connections.filter(({commands}) => commands.some(line => line.includes('<bad')));
	t.true(refused.length > 0);
	for (const {commands} of refused) {
		const verbs = commands.map(line => line.slice(0, 4));
		const after = commands.findIndex(line => line.includes('<bad'));
		t.true(verbs.indexOf('RSET', after) !== -1 && verbs.indexOf('RSET', after) <= after + 2, verbs.join(' '));
	}
	t.true(mixed.connections.length < 13, 'a refusal ends no session');

	const leaving = host('mx.leaves.example');
	const there = await all('leaves.example', users(12));
	await until(there, 'delivered');
	t.is(leaving.count(), 12, 'each once');
	const shown = await Promise.all(there.map(show));
	const attempts = shown.flatMap(({recipients}) => recipients[0]?.attempts ?? []);
	t.true(attempts.every(({phase, code}) => (phase === 'dot' && code === 250) || (phase === 'mail' && code === 421)));
});

test('bounces a UTF-8 address with 5.6.7 where SMTPUTF8 is not offered, before sending anything', async t => {
	const {program, host, send, until, show} = lab();
	const refused = await send('jürgen@ascii.example');
	await until(refused, 'bounced');
	t.like((await show(refused)).events.at(-1)?.detail, {type: 'permanent', category: 'protocol', enhanced: '5.6.7'});
	t.like(await program.cli('suppression', 'check', 'jürgen@ascii.example'), {suppressed: false});
	const said = host('mx.ascii.example').connections.flatMap(({commands}) => commands);
	t.deepEqual(
		said.filter(line => !/^(EHLO|QUIT)/.test(line)),
		[],
	);

	await until(await send('jürgen@utf8.example'), 'delivered');
	const commands = host('mx.utf8.example').connections[0]?.commands ?? [];
	t.regex(commands[1] ?? '', /^MAIL FROM:<b[0-9a-z]+@bounce\.shop\.example> SMTPUTF8 RET=HDRS ENVID=\S+$/);
	t.is(commands[2], 'RCPT TO:<jürgen@utf8.example> NOTIFY=FAILURE ORCPT=utf-8;jürgen@utf8.example');
});

const tails = ['\n.\r\n', '\r\n.\n', '\n.\n', '\r.\r', '\r.\r\n', '\r\n.\r', '\r\n.\r\n', '\n\r\n.\r\n'];
const next = 'MAIL FROM:<evil@x.test>\r\nRCPT TO:<victim@x.test>\r\nDATA\r\nSubject: forged\r\n\r\nx';

test('SMTP smuggling and header injection each yield one signed message with its own headers', async t => {
	const {program, host, send, until, shop} = lab();
	const [template] = await program.cli<Array<{id: string}>>(
		'template',
		'push',
		resolve('test/fixtures/flow/hostile'),
	);
	const {records} = await program.cli<{records: DomainRecord[]}>('domain', 'show', 'example.com');
	const subject = 'Hello\r\nBcc: victim@x.test\r\n\r\nSubject: another\u0007\u2028Cc: victim@x.test';

	for (const domain of ['strict.example', 'lax.example']) {
		const {received, connections} = host(`mx.${domain}`);
		const ids = await Promise.all(
			tails.map(tail => {
				const text = `body${tail}${next}${tail}end`;
				const content = Buffer.from(text).toString('base64');
				return send(`user@${domain}`, {
					templateId: template?.id,
					data: {subject, text},
					attachments: [{filename: 'a.txt', contentType: 'text/plain', content}],
				});
			}),
		);
		await until(ids, 'delivered');
		t.is(received.length, tails.length, domain);
		t.false(connections.some(({commands}) => commands.some(line => /evil|victim/.test(line))));
		for (const {to, data} of received) {
			t.deepEqual(to, [`user@${domain}`]);
			const head = data.toString('latin1').split('\r\n\r\n')[0] ?? '';
			for (const name of ['From', 'To', 'Subject', 'Date', 'Message-ID']) {
				t.is(head.match(new RegExp(`^${name}:`, 'gim'))?.length, 1, `${name}\n${head}`);
			}
			t.notRegex(head, /^(bcc|cc):/im);
			t.deepEqual(await verify(data, records), ['mc1: pass', 'mc2: pass']);
			t.false(
				data
					.toString('latin1')
					.split('\r\n')
					.some(line => line.length > 998 || /[\r\n\0\x80-\xff]/.test(line)),
			);
		}
	}

	// DKIM as mailauth sees it: what a one-click needs is signed, and nobody can add a header that is shown.
	const [{data} = {data: Buffer.alloc(0)}] = host('mx.strict.example').received;
	t.is(covered(data).length, 2);
	for (const names of covered(data)) {
		for (const name of [
			'list-unsubscribe',
			'list-unsubscribe-post',
			'from',
			'to',
			'subject',
			'date',
			'message-id',
		]) {
			t.true(names.includes(name), `${name} is signed`);
		}
		t.is(names.filter(name => name === 'from').length, 2, 'and so is that there is no other');
	}
	for (const added of ['Subject: another', 'From: <evil@x.test>', 'List-Unsubscribe-Post: No']) {
		const forged = Buffer.concat([Buffer.from(`${added}\r\n`), data]);
		const results = await verify(forged, records);
		t.deepEqual(
			results.map(result => result.endsWith(': pass')),
			[false, false],
			added,
		);
	}
	t.is(headerOf(data, 'List-Unsubscribe-Post'), 'List-Unsubscribe=One-Click');

	// What is no address or no file name is refused at once.
	const {from, templateId} = shop;
	for (const bad of [
		{to: 'a@b.example\r\nBcc: c@d.example'},
		{to: 'a@b.example', replyTo: 'a@b.example\nBcc: c@d.example'},
		{to: 'a@b.example', cc: ['a@b.example>\r\nRCPT TO:<c@d.example']},
		{to: 'a@b.example', attachments: [{filename: 'a\r\nX: y', contentType: 'text/plain', content: ''}]},
		{to: 'a@b.example', attachments: [{filename: 'a', contentType: 'text/plain\r\nX: y', content: ''}]},
	]) {
		const error = await t.throwsAsync(send(bad.to, {from, templateId, ...bad}));
		t.regex(error?.message ?? '', /422 .*validation_failed/);
	}
});
