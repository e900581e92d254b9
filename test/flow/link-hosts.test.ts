import {resolve} from 'node:path';
import test from 'ava';
import {simpleParser} from 'mailparser';
import {prepareProgram} from '../helpers/daemon.ts';
import {publish, type ToPublish} from '../helpers/domain-zone.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {type Received, startFakeMx} from '../helpers/fake-mx.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

type Domain = {readonly id: string; readonly link_host_used: boolean; readonly records: readonly ToPublish[]};

type Tenant = {
	readonly name: string;
	readonly key: string;
	readonly domain: Domain;
	readonly templateId: string | undefined;
	readonly inIt: readonly string[];
};

test('links of each tenant use its own link domain once DNS points it to this machine', async t => {
	const mx = await startFakeMx(t);
	const dns = await startFakeDns(t, {
		'buyer.example': {mx: [[10, 'mx.buyer.example']]},
		'mx.buyer.example': {a: [mx.host]},
		'out.mail.example': {a: ['192.0.2.1']},
	});
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_HOSTNAME: 'out.mail.example',
		MAILCTL_PUBLIC_URL: 'https://out.mail.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounces.mail.example',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_MX_PORT: String(mx.port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
	});
	await program.cliBytes('init');
	const tenants: Tenant[] = [];
	for (const name of ['red', 'blue']) {
		await program.cli('workspace', 'create', '--name', name, '--track-opens', '--track-clicks');
		const inIt = ['--workspace', name] as const;
		const {key} = await program.cli<{key: string}>('key', 'create', '--name', 'flow', ...inIt);
		const folder = resolve('test/fixtures/flow/templates');
		const templates = await program.cli<Array<{id: string; name: string}>>('template', 'push', folder, ...inIt);
		const domain = await program.cli<Domain>(
			'domain',
			'add',
			`${name}.example`,
			'--links',
			`go.${name}.example`,
			...inIt,
		);
		await program.cli('sender', 'add', `orders@${name}.example`, ...inIt);
		publish(
			dns.zone,
			domain.records.filter(({purpose}) => purpose === 'ownership' || purpose === 'dkim'),
		);
		await program.cli('domain', 'verify', `${name}.example`, ...inIt);
		const templateId = templates.find(template => template.name === 'receipt')?.id;
		tenants.push({name, key, domain, templateId, inIt});
	}
	const daemon = await program.serve();
	const sent = new Map<string, number>();

	/** Sends for a tenant and returns the message. */
	async function mailOf({name, key, templateId}: Tenant): Promise<Received> {
		const data = {
			customer: {name: 'Ada'},
			order: {number: 'A-1', placed_at: '2026-06-09T10:00:00Z', items: [], total: 5},
		};
		const {status} = await call(`${daemon.url}/v1/messages`, key, {
			...{from: `orders@${name}.example`, to: 'ann@buyer.example', templateId, data},
		});
		t.is(status, 202);
		const n = (sent.get(name) ?? 0) + 1;
		sent.set(name, n);
		const from = () =>
			mx.received.filter(
				({data: raw}) =>
					raw.includes(`<orders@${name}.example>`) || raw.includes(`From: orders@${name}.example`),
			);
		return await waitFor(`mail ${n} of ${name}`, () => from()[n - 1]);
	}

	/** Every hostname in the links of a message: in its headers, HTML and text. */
	async function hostsOf({data}: Received): Promise<string[]> {
		const mail = await simpleParser(data);
		const texts = [String(mail.html), mail.text ?? '', mail.headerLines.map(({line}) => line).join('\n')];
		t.regex(texts[0] as string, /\/t\/c\//);
		t.regex(texts[0] as string, /\/t\/o\//);
		t.regex(texts[2] as string, /list-unsubscribe:/i);
		const urls = texts.flatMap(text => [
			...text.matchAll(/https:\/\/([^/\s"'<>]+)\/(?:t\/[oc]\/|unsubscribe|preferences)/g),
		]);
		return [...new Set(urls.map(([, host]) => host as string))];
	}

	for (const tenant of tenants) {
		t.deepEqual(await hostsOf(await mailOf(tenant)), ['out.mail.example'], 'until DNS shows the host');
	}
	publish(
		dns.zone,
		tenants.flatMap(({domain}) => domain.records.filter(({purpose}) => purpose === 'links')),
	);
	for (const {name, inIt} of tenants) {
		t.like(await program.cli('domain', 'verify', `${name}.example`, ...inIt), {link_host_used: true});
	}
	for (const tenant of tenants) {
		const {name} = tenant;
		const mail = await waitFor('the daemon reads it again', async () => {
			const next = await mailOf(tenant);
			return next.data.includes('out.mail.example/') ? null : next;
		});
		t.deepEqual(await hostsOf(mail), [`go.${name}.example`]);
		const other = name === 'red' ? 'blue' : 'red';
		// As a word: three letters in a row are in some signature or token of every hundredth mail.
		t.notRegex(mail.data.toString('latin1'), new RegExp(`\\b${other}\\b`), 'nothing of another tenant');
	}

	// Its page, under its host, names no other.
	const [red] = tenants;
	const raw = (await simpleParser((await mailOf(red as Tenant)).data)).headerLines.map(({line}) => line).join('\n');
	const link = /<https:\/\/go\.red\.example(\/unsubscribe\?token=[^>\s]+)>/.exec(
		raw.replaceAll(/\r?\n\s*/g, ''),
	)?.[1];
	const page = await fetch(`${daemon.url}${link}`, {headers: {host: 'go.red.example'}});
	t.is(page.status, 200);
	t.notRegex(await page.text(), /out\.mail\.example|\bblue\b/);

	// A host that leads elsewhere is not used any more, and a taken one is refused.
	dns.zone['go.red.example'] = {a: ['192.0.2.99']};
	t.like(await program.cli('domain', 'verify', 'red.example', '--workspace', 'red'), {link_host_used: false});
	const back = await waitFor('the daemon reads it again', async () => {
		const next = await mailOf(red as (typeof tenants)[number]);
		return next.data.includes('go.red.example') ? null : next;
	});
	t.deepEqual(await hostsOf(back), ['out.mail.example']);
	t.like(
		await call(`${daemon.url}/v1/domains`, tenants[1]?.key ?? '', {
			name: 'red.example',
			link_host: 'go.red.example',
		}),
		{
			status: 409,
		},
	);
	t.is(await daemon.stop(), 0);
});
