import {mkdir, mkdtemp, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {Mailctl} from 'mailctl/client';
import {createTransport} from 'nodemailer';
import {readDaemonFile} from '../../src/store/data-folder/daemon-file.ts';
import {complaintAbout} from '../demo/steps.ts';
import {dmarcMail, type Reporter, reporters, reportSigner, signingDomainOf} from '../helpers/aggregate-mails.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import {eventsOf, type Program, prepareProgram, type Scope} from '../helpers/daemon.ts';
import {publish, type ToPublish} from '../helpers/domain-zone.ts';
import {type FakeMx, startFakeMx} from '../helpers/fake-mx.ts';
import {dsnOf} from '../helpers/report-mails.ts';
import {skewedBy} from '../helpers/skewed.ts';
import {waitFor} from '../helpers/wait.ts';
import {type Receiver, startReceiver} from '../helpers/webhook-receiver.ts';

/** A shop that has sent mail for a month, with what goes wrong in one. */
export type Shop = {
	readonly program: Program;
	readonly url: string;
	/** What single pages are of. */
	readonly ids: Readonly<
		Record<
			| 'received'
			| 'domain'
			| 'template'
			| 'reset'
			| 'scheduled'
			| 'webhook'
			| 'workspace'
			| 'contact'
			| 'bounced'
			| 'waiting',
			string
		>
	>;
};

const hosts = ['inbox.example', 'post.example', 'campus.example', 'works.example'];
const people = 'ada bela cleo dora emil finn greta hugo ida jon kaya lena milo nora otto pia rosa sven tilda udo'.split(
	' ',
);
const families = 'berger costa dahl engel farkas garcia huber ito jansen keller'.split(' ');
const templates = path.resolve('test/pictures/templates');

const stray = dsnOf(
	'Reporting-MTA: dns; mx.works.example\n\nFinal-Recipient: rfc822; jon.ito@works.example\nAction: failed\nStatus: 5.2.2',
	'The mailbox of jon.ito@works.example is full.',
).toString('latin1');

type Send = {readonly to: string; readonly template: string; readonly news?: boolean};

export async function startShop(scope: Scope): Promise<Shop> {
	const servers = await mailServers(scope);
	const clock = await clockOf(scope);
	const receiver = await startReceiver(scope, clock.folder, ['hooks.shop.example']);
	receiver.zone['mail.shop.example'] = {a: ['192.0.2.25'], txt: ['v=spf1 a -all']};
	receiver.zone['bounce.mail.shop.example'] = {
		mx: [[10, 'mail.shop.example']],
		txt: ['v=spf1 a:mail.shop.example -all'],
	};
	for (const asked of ['gmail.com', 'outlook.com']) {
		receiver.zone[asked] = {mx: [[10, 'mx.inbox.example']]};
	}
	for (const [index, host] of hosts.entries()) {
		receiver.zone[host] = {mx: [[10, `mx.${host}`]]};
		receiver.zone[`mx.${host}`] = {a: [servers[index]?.host ?? '']};
	}
	const program = await prepareProgram(scope, {
		...clock.settings,
		...receiver.settings,
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounce.mail.shop.example',
		MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
		MAILCTL_MX_PORT: String(servers[0]?.port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_MTA_STS: 'false',
		MAILCTL_MAKERS: '1',
		MAILCTL_WEBHOOK_BACKOFF: '1s',
	});
	await clock.set('-31d');
	const {url} = await program.serve();
	const cli = <T>(...args: readonly string[]) => program.cli<T>(...args, '--workspace', 'shop');
	const {id: workspace} = await program.cli<{id: string}>(
		...['workspace', 'create', '--name', 'shop', '--brand-name', 'Corner Shop', '--monthly-quota', '5000'],
	);
	await program.cli('workspace', 'create', '--name', 'newsletter');
	const {id: domain} = await cli<{id: string}>('domain', 'add', 'shop.example');
	const {records} = await cli<{records: readonly ToPublish[]}>('domain', 'show', 'shop.example');
	publish(receiver.zone, records);
	await cli('domain', 'verify', 'shop.example');
	await cli('domain', 'add', 'corner-shop.example');
	await cli('sender', 'add', 'orders@shop.example', '--name', 'Corner Shop');
	await cli('sender', 'add', 'news@shop.example', '--name', 'Corner Shop News');
	const topic = async (code: string, title: string, ...more: readonly string[]) =>
		await cli('topic', 'create', '--code', code, '--name', title, '--description', ...more);
	await topic('offers', 'Offers', 'When something you like costs less', '--public');
	await topic('news', 'Monthly news', 'What is new, once a month', '--public');
	await topic('account', 'Your account', 'Receipts, and links to log in', '--required');
	await cli('workspace', 'update', 'shop', '--default-topic', 'account');
	const pushed = await cli<Array<{id: string; name: string}>>('template', 'push', templates);
	const template = Object.fromEntries(pushed.map(({id, name}) => [name, id]));
	const {key} = await cli<{key: string}>('key', 'create', '--name', 'web shop', '--rate-limit', '0');
	await cli('smarthost', 'add', 'postmark');
	await program.cli('smarthost', 'add', 'ses');
	await program.cli('alert', 'add', '--mail', 'ops@shop.example');
	await cli('alert', 'add', '--webhook', receiver.url('/alerts'), '--on', 'domain_failed,webhook_dead');
	await cli('key', 'create', '--name', 'staging', '--mode', 'test');
	await program.cli('user', 'add', 'ann@shop.example', '--role', 'admin');
	await program.cli('user', 'add', 'bob@shop.example', '--workspace', 'shop');
	const client = new Mailctl({baseUrl: url, apiKey: key});

	let number = 1000;
	async function send({to, template: name, news = false}: Send): Promise<string> {
		number++;
		const {id} = await client.messages.send({
			from: news ? 'news@shop.example' : 'orders@shop.example',
			to,
			templateId: template[name] ?? '',
			data: dataOf(to, number),
			metadata: {order_id: String(number)},
			tags: [name],
			...(news && {unsubscribeGroup: 'news'}),
		});
		return id;
	}
	const ended = (id: string, limit?: number) =>
		waitFor(
			`${id} has come to its end`,
			async () => {
				const {status} = await client.messages.get(id);
				return !['accepted', 'queued'].includes(status);
			},
			limit,
		);

	const random = chance();
	const any = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)] as T;
	const someone = () => `${any(people)}.${any(families)}@${any([...hosts.slice(0, 2), ...hosts])}`;
	async function traffic(count: number): Promise<void> {
		const ids: string[] = [];
		for (let n = 0; n < count; n++) {
			const to = random() < 0.02 ? `${any(people)}.gone@${any(hosts)}` : someone();
			// Who is on the suppression list is refused.
			ids.push(
				...(await send({to, template: random() < 0.7 ? 'receipt' : 'password-reset'}).then(
					id => [id],
					() => [],
				)),
			);
		}
		await Promise.all(ids.map(id => ended(id)));
	}
	for (let day = 30; day >= 2; day--) {
		await clock.set(`-${day * 24}h`);
		await traffic(20 + Math.floor(random() * 15));
	}
	for (let hour = 24; hour >= 1; hour--) {
		await clock.set(`-${hour * 3600 - 120}`);
		await traffic(3 + Math.floor(random() * 10));
	}
	await clock.set('+0');

	const {id: webhook} = await cli<{id: string}>(
		'webhook',
		'add',
		receiver.url('/mail'),
		'--event',
		'delivered,bounced,complained',
	);
	await cli('webhook', 'add', receiver.url('/stock'), '--event', 'bounced');
	receiver.behave('/stock', (_, response) => response.writeHead(503).end('The stock service is being updated.'));
	const complained = await send({to: 'ida.keller@inbox.example', template: 'monthly-news', news: true});
	await ended(complained);
	const raw = (await program.cliBytes('message', 'raw', complained)).toString('latin1');
	await bring(program, complaintAbout(raw, 'ida.keller@inbox.example'));
	await bring(program, stray);
	await waitFor('the complaint is read', async () => (await client.messages.get(complained)).status === 'complained');
	await traffic(9);
	const bounced = await send({to: 'max.gone@works.example', template: 'receipt'});
	await ended(bounced);
	await program.cli('workspace', 'pause', '--workspace', 'newsletter', '--reason', '6.2% of 1,204 mails bounced');
	await waitFor('it rings', async () => (await eventsOf(program, 'alert_began')).length > 0);
	await program.cli('queue', 'suspend', 'post.example', '--reason', 'their disk is full until Monday');
	await waitFor('mail to it waits', async () => {
		const id = await send({to: `${any(people)}.dahl@post.example`, template: 'receipt'});
		return await ended(id, 1000).then(
			() => false,
			() => true,
		);
	});
	await send({to: 'wim.ito@post.example', template: 'password-reset'});
	const waiting = await send({to: 'rosa.busy@campus.example', template: 'receipt'});
	await waitFor('it was put off', async () => (await eventsOf(program, 'deferred')).length > 0);
	for (const address of ['old.customer@inbox.example', 'press@works.example', 'spamtrap@campus.example']) {
		await cli('suppression', 'add', address);
	}
	let scheduled = '';
	const receipt = {from: 'orders@shop.example', templateId: template.receipt ?? ''};
	for (const [to, sendAt] of [
		['nora.costa@inbox.example', '+3h'],
		['hugo.farkas@works.example', '+20h'],
		['ada.engel@campus.example', '+3d'],
	] as const) {
		const {id} = await client.messages.send({...receipt, to, sendAt, data: dataOf(to, ++number)});
		scheduled = id;
	}
	const choosy = 'greta.winter@inbox.example';
	await ended(await send({to: choosy, template: 'receipt'}));
	const {url: link} = await cli<{url: string}>('contact', 'preferences-link', choosy);
	await choose(url, link, ['action', 'save'], ['topic', 'news'], ['shown', 'news'], ['shown', 'offers']);
	await choose(url, link, ['action', 'pause']);
	const {id: contact} = await cli<{id: string}>('contact', 'show', choosy);
	const {'password-reset': reset = ''} = template;
	await reportDmarc(program, receiver);
	const received = await receive({program, url, key}, bounced);
	const ids = {
		received,
		domain,
		template: receipt.templateId,
		reset,
		scheduled,
		webhook,
		workspace,
		contact,
		bounced,
		waiting,
	};
	return {program, url, ids};
}

/** Two mails to the shop: an answer to a message, and a question with a picture. */
async function receive(
	{program, url, key}: {readonly program: Program; readonly url: string; readonly key: string},
	answered: string,
): Promise<string> {
	await program.cli('inbound', 'add', 'support@in.shop.example', '--workspace', 'shop');
	await program.cli('inbound', 'add', '*@returns.shop.example', '--workspace', 'shop');
	const headers = {authorization: `Bearer ${key}`};
	const raw = await (await fetch(`${url}/v1/messages/${answered}/raw`, {headers})).text();
	const inbound = readDaemonFile(path.join(program.folder, 'data'))?.inbound?.split(':').at(-1);
	const transport = createTransport({host: '127.0.0.1', port: Number(inbound), secure: false, ignoreTLS: true});
	const to = 'support@in.shop.example';
	const question = {from: 'Milo Keller <milo.keller@inbox.example>', to, subject: 'Is the blue cup in stock?'};
	const picture = {filename: 'cup.png', content: Buffer.alloc(48_211), contentType: 'image/png'};
	await waitFor('the address counts', () =>
		transport.sendMail({...question, text: 'I saw it in your window.', attachments: [picture]}).then(
			() => true,
			() => false,
		),
	);
	const inReplyTo = /^Message-ID: (.*)$/im.exec(raw)?.[1] ?? '';
	const html = '<p>Hello,</p><p>the order came <b>in two days</b>, and nothing is broken. Thank you!</p><p>Nora</p>';
	const answer = {from: 'Nora Costa <nora.costa@inbox.example>', to, subject: 'Re: Your order', html, inReplyTo};
	await transport.sendMail(answer);
	return await waitFor('both are there', async () => {
		const {data} = (await (await fetch(`${url}/v1/received`, {headers})).json()) as {data: Array<{id: string}>};
		return data.length === 2 && data[0]?.id;
	});
}

/** What others say of mail from the shop: its own address, a forwarder and somebody else. */
async function reportDmarc(program: Program, {zone}: Pick<Receiver, 'zone'>): Promise<void> {
	const signer = await reportSigner(...reporters.slice(0, 9).map(signingDomainOf));
	Object.assign(zone, signer.zone);
	const today = Math.floor(Date.now() / 86_400_000) * 86_400;
	const records = [
		{ip: '192.0.2.25', n: 412, dkim: 'pass', spf: 'pass'},
		{ip: '198.51.100.77', n: 9, dkim: 'pass', spf: 'fail'},
		{ip: '203.0.113.42', n: 31, dkim: 'fail', spf: 'fail', mailFrom: 'bulk.example', passed: 'pass'},
		{ip: '2001:db8:55::9', n: 4, dkim: 'fail', spf: 'fail', passed: 'softfail', override: 'mailing_list'},
	] as const;
	const folder = path.join(program.folder, 'dmarc');
	await mkdir(folder);
	for (let ago = 1; ago <= 20; ago++) {
		const begin = today - ago * 86_400;
		const facts = {org: '', email: '', id: `r${ago}`, domain: 'shop.example', begin, end: begin + 86_399, records};
		const reporter = reporters[ago % 9] as Reporter;
		const mail = await signer.sign(dmarcMail(reporter, facts), signingDomainOf(reporter));
		await writeFile(path.join(folder, `${ago}.eml`), mail);
	}
	await program.cli('bounce', 'ingest', folder);
}

/** A recipient chooses on the page that a link leads to. */
async function choose(
	daemon: string,
	link: string,
	...choices: ReadonlyArray<readonly [string, string]>
): Promise<void> {
	const body = new URLSearchParams({token: new URL(link).searchParams.get('token') ?? ''});
	for (const [name, value] of choices) {
		body.append(name, value);
	}
	const {ok, status} = await fetch(new URL('/preferences', daemon), {method: 'POST', body});
	if (!ok) {
		throw new Error(`the preference page answers ${status}`);
	}
}

/** The recipients' mail servers: one port, an address each. */
async function mailServers(scope: Scope): Promise<FakeMx[]> {
	const tls = makeCertificate(...hosts.map(host => `mx.${host}`));
	const servers: FakeMx[] = [];
	for (const [index, name] of hosts.entries()) {
		servers.push(
			await startFakeMx(scope, {
				host: `127.0.0.${index + 1}`,
				port: servers[0]?.port ?? 0,
				// The last of them is too old for it.
				...(index < hosts.length - 1 && {tls}),
				greeting: `220 mx.${name} ESMTP`,
				rcpt(line) {
					if (line.includes('.gone@')) {
						return '550 5.1.1 There is nobody of this name';
					}
					return line.includes('.busy@')
						? '451 4.7.1 Greylisted, please try again in 5 minutes'
						: '250 2.1.5 Ok';
				},
			}),
		);
	}
	return servers;
}

/** The daemon's clock, which can be set; without libfaketime it cannot, and everything happened just now. */
async function clockOf(scope: Scope) {
	const folder = await mkdtemp(path.join(tmpdir(), 'mailctl-clock-'));
	const file = path.join(folder, 'clock');
	const skewed = skewedBy('+0');
	if (skewed === null) {
		scope.log('libfaketime is not installed: all mail of the pictures is of this minute.');
	}
	const {FAKETIME: _, ...rest} = skewed ?? {};
	return {
		folder,
		settings: {...rest, ...(skewed && {FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: '1'})},
		set: async (offset: string) => await writeFile(file, `${offset}\n`),
	};
}

/** Numbers from 0 to 1, the same each time. */
function chance(): () => number {
	let state = 42;
	return () => {
		state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
		return state / 2 ** 31;
	};
}

function dataOf(to: string, number: number) {
	const [name = ''] = to.split('.');
	const lines = [
		{name: 'Earl Grey, 250 g', price: '12.90 €'},
		{name: 'Teapot, blue', price: '36.00 €'},
	];
	return {
		name: `${name[0]?.toUpperCase()}${name.slice(1)}`,
		code: '7f3a9c',
		order: {number: String(number), total: '48.90 €', lines},
	};
}

async function bring({folder}: Program, raw: string): Promise<void> {
	const {port} = new URL(`smtp://${readDaemonFile(path.join(folder, 'data'))?.inbound}`);
	const transport = createTransport({host: '127.0.0.1', port: Number(port), ignoreTLS: true});
	await transport.sendMail({envelope: {from: 'reports@inbox.example', to: 'fbl@bounce.mail.shop.example'}, raw});
	transport.close();
}
