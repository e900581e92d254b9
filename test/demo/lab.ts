import {writeFileSync} from 'node:fs';
import path from 'node:path';
import {Mailctl} from 'mailctl/client';
import {createTransport} from 'nodemailer';
import {readDaemonFile} from '../../src/store/data-folder/daemon-file.ts';
import {type Program, prepareProgram, type Scope, welcomeOf} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {type FakeMx, type Received, startFakeMx} from '../helpers/fake-mx.ts';
import {type Receiver, startReceiver} from '../helpers/webhook-receiver.ts';

/**
 * A small internet on loopback: DNS, the recipients' mail server, a shop's webhook receiver, and the daemon that mails.
 */
export type Lab = {
	readonly program: Program;
	readonly url: string;
	readonly client: Mailctl;
	/** What every send of the demo has. */
	readonly mail: {readonly from: string; readonly templateId: string};
	readonly inbox: FakeMx;
	readonly receiver: Receiver;
	readonly endpoint: {readonly id: string; readonly signing_secret: string};
	/** The address that takes complaints. */
	readonly feedback: string;
	/** Brings a mail to the daemon's listener, as the recipient's provider does. */
	readonly report: (raw: string) => Promise<void>;
};

const returnPaths = 'bounce.shop.example';

export async function startLab(scope: Scope): Promise<Lab> {
	const inbox = await startFakeMx(scope, {
		rcpt: line => (line.includes('<nobody@') ? '550 5.1.1 There is nobody of this name' : '250 2.1.5 Ok'),
	});
	const bare = await prepareProgram(scope, {});
	const receiver = await startReceiver(scope, bare.folder, ['hooks.shop.example']);
	const dns = await startFakeDns(scope, {
		...receiver.zone,
		'inbox.example': {mx: [[10, 'mx.inbox.example']]},
		'mx.inbox.example': {a: [inbox.host]},
	});
	const settings = {
		...receiver.settings,
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: returnPaths,
		MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
		MAILCTL_MX_PORT: String(inbox.port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_MTA_STS: 'false',
		MAILCTL_HTTP_LISTEN: '127.0.0.1:0',
	};
	// Daemon and commands read it, also those of a person who looks around in the folder.
	writeFileSync(
		path.join(bare.folder, '.env'),
		Object.entries(settings)
			.map(([name, value]) => `${name}=${value}\n`)
			.join(''),
	);
	const {url} = await bare.serve();
	const {key, from, templateId} = await welcomeOf(bare);
	const client = new Mailctl({baseUrl: url, apiKey: key});
	await bare.cli('topic', 'create', '--code', 'news', '--name', 'Monthly news');
	const endpoint = await bare.cli<Lab['endpoint']>(
		...['webhook', 'add', receiver.url('/mail'), '--event', 'delivered,bounced,complained'],
	);
	const {port} = new URL(`smtp://${readDaemonFile(path.join(bare.folder, 'data'))?.inbound}`);
	const feedback = `fbl@${returnPaths}`;
	return {
		...{program: bare, url, client, mail: {from, templateId}, inbox, receiver, endpoint, feedback},
		async report(raw) {
			const transport = createTransport({host: '127.0.0.1', port: Number(port), ignoreTLS: true});
			await transport.sendMail({envelope: {from: 'reports@inbox.example', to: feedback}, raw});
			transport.close();
		},
	};
}

/** The last mail that the recipients' server has for an address. */
export function mailTo({inbox}: Lab, address: string): Received | undefined {
	return inbox.received.findLast(({to}) => to.some(recipient => recipient.includes(address)));
}

/** A header field of a mail, unfolded. */
export function fieldOf({data}: Received, name: string): string {
	const [head = ''] = data.toString('latin1').split('\r\n\r\n');
	const unfolded = head.replaceAll(/\r\n[ \t]+/g, ' ').split('\r\n');
	return (
		unfolded.find(line => line.toLowerCase().startsWith(`${name.toLowerCase()}: `))?.slice(name.length + 2) ?? ''
	);
}
