import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {tokenIn, type Visitor, visitorOf} from '../helpers/dashboard.ts';
import {unmatchedBounce as bounce} from '../helpers/unmatched-bounce.ts';
import {service} from './service.ts';

async function ingest(mail: string): Promise<void> {
	const file = join(service().program.folder, 'returned.eml');
	await writeFile(file, mail);
	await service().program.cli('bounce', 'ingest', file);
}

/** Sends the form with a file as browsers do. */
async function upload(visitor: Visitor, fields: Readonly<Record<string, string>>, file: string) {
	const form = new FormData();
	form.set('_csrf', tokenIn((await visitor.get('/returned/explain')).text));
	for (const [key, value] of Object.entries(fields)) {
		form.set(key, value);
	}
	form.set('file', new Blob([file]), 'returned.eml');
	return await visitor.raw('/returned/explain', {method: 'POST', body: form, headers: {origin: service().url}});
}

test.serial('lists an unmatched report and shows it in full, with hostile content escaped', async t => {
	const visitor = await visitorOf(service(), 'viewer');
	t.regex((await visitor.get('/returned')).text, /No returned mail/);

	await ingest(bounce('gone@dest.example', '550 5.1.1 <script>alert(1)</script> \u202eno such user'));
	const {text: listed} = await visitor.get('/returned');
	const [, path = ''] = /href="(\/returned\/[0-9a-f]{64})"/.exec(listed) ?? [];
	t.regex(listed, /gone@dest\.example/);
	t.regex(listed, /no token/);

	const {text} = await visitor.get(path);
	t.regex(text, /<h1>About gone@dest\.example<\/h1>/);
	t.regex(text, /A delivery status notification/);
	t.regex(text, /failed, permanent: the address does not accept mail/);
	t.regex(text, /unknown_user/);
	t.regex(text, /suppresses the address/);
	t.regex(text, /Reporting-MTA: dns; mx\.dest\.example/, 'the mail itself');
	t.notRegex(text, /<script>alert/);
	const raw = await visitor.get(`${path}/raw`);
	t.regex(raw.headers.get('content-disposition') ?? '', /^attachment; filename="[0-9a-f]{12}\.eml"$/);
	t.regex(raw.text, /^From: Mail Delivery System/);
	t.is((await visitor.get(`/returned/${'0'.repeat(64)}`)).status, 404);
});

test.serial('pages through more reports than fit one page', async t => {
	const mails = Array.from({length: 55}, (_, index) => bounce(`u${index}@dest.example`));
	const file = join(service().program.folder, 'returned.mbox');
	await writeFile(
		file,
		mails.map(mail => `From x@y Mon Nov 23 10:00:00 2026\n${mail.replaceAll('\r\n', '\n')}\n`).join(''),
	);
	await service().program.cli('bounce', 'ingest', file);
	const visitor = await visitorOf(service(), 'viewer');
	const seen = new Set<string>();
	let path: string | undefined = '/returned';
	while (path !== undefined) {
		const {text}: {text: string} = await visitor.get(path);
		for (const [, about = ''] of text.matchAll(/<bdi>(u\d+@dest\.example)<\/bdi>/g)) {
			t.false(seen.has(about), about);
			seen.add(about);
		}
		path = /href="(\/returned\?after=[0-9a-f]+)" rel="next"/.exec(text)?.[1];
	}
	t.is(seen.size, 55);
});

test.serial('explains pasted text, a file or an SMTP reply, and stores nothing', async t => {
	const visitor = await visitorOf(service(), 'viewer');
	const {text: before} = await visitor.get('/returned');
	for (const {status, text} of [
		await visitor.submit('/returned/explain', {mail: bounce('pasted@dest.example')}),
		await upload(visitor, {mail: ''}, bounce('pasted@dest.example')),
	]) {
		t.is(status, 200);
		t.regex(text, /A delivery status notification/);
		t.regex(text, /<bdi>pasted@dest\.example<\/bdi>/);
		t.regex(text, /unknown_user/);
	}
	const long = await upload(visitor, {mail: ''}, bounce('pasted@dest.example') + 'x'.repeat(11 * 1024 * 1024));
	t.regex(long.text, /Only the first 10,485,760 of 11,53\d,\d{3} octets were read/);
	t.regex(long.text, /unknown_user/);
	const reply = await visitor.submit('/returned/explain', {
		reply: '452 4.2.2 mailbox "full"',
		phase: 'data',
		mx: 'MX.Example',
	});
	t.regex(reply.text, /mailbox_full/);
	t.regex(reply.text, /suppresses nothing/);
	t.regex(reply.text, /value="452 4\.2\.2 mailbox &quot;full&quot;"/, 'what was typed is kept');
	for (const fields of [{mail: ' '}, {reply: 'no'}, {reply: '250 ok'}]) {
		const {status, text} = await visitor.submit('/returned/explain', fields);
		t.is(status, 422);
		t.regex(text, /role="alert">[A-Z]/);
	}
	t.is((await visitor.get('/returned')).text.match(/data-row/g)?.length, before.match(/data-row/g)?.length);
	t.deepEqual(await service().program.cli('suppression', 'list', '--workspace', 'shop'), []);
});

test.serial('users of one workspace can explain reports but not see returned ones', async t => {
	const visitor = await visitorOf(service(), 'admin', 'shop');
	const seen = await visitor.get('/returned');
	t.is(seen.location, '/returned/explain');
	t.is((await visitor.get('/returned/explain')).status, 200);
	t.is((await visitor.get(`/returned/${'0'.repeat(64)}`)).status, 403);
});
