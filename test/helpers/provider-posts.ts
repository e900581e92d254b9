import {createHmac, createSign, generateKeyPairSync, type KeyObject, sign} from 'node:crypto';
import {createServer} from 'node:http';
import type {AddressInfo} from 'node:net';
import type {ProviderName} from '../../src/mail/provider.ts';
import {makeRsaCertificate} from './certificate.ts';
import type {Teardown} from './fake-mx.ts';

/** What a provider says happened to a mail that it took. */
export type Happened = 'delivered' | 'hard' | 'complained' | 'dropped';

/**
 * What the provider knows of the mail: our token as it came in the echoed header, its own answer's id, the recipient.
 */
type Mail = {readonly ref: string; readonly to: string; readonly id: string};

const user = '550 5.1.1 No such user here';
/** One event of each provider, written after its public documentation. */
export const eventOf: Readonly<Record<ProviderName, (what: Happened, mail: Mail) => object>> = {
	ses: (what, {ref, to, id}) => {
		const mail = {messageId: id, destination: [to], tags: {'mailctl-ref': [ref]}};
		switch (what) {
			case 'delivered':
				return {eventType: 'Delivery', mail, delivery: {recipients: [to], smtpResponse: '250 2.6.0 ok'}};
			case 'complained':
				return {
					eventType: 'Complaint',
					mail,
					complaint: {complainedRecipients: [{emailAddress: to}], complaintFeedbackType: 'abuse'},
				};
			default: {
				const bounceSubType = what === 'hard' ? 'General' : 'OnAccountSuppressionList';
				const bouncedRecipients = [{emailAddress: to, status: '5.1.1', diagnosticCode: `smtp; ${user}`}];
				return {eventType: 'Bounce', mail, bounce: {bounceType: 'Permanent', bounceSubType, bouncedRecipients}};
			}
		}
	},
	sendgrid: (what, {ref, to, id}) => ({
		...{email: to, 'mailctl-ref': ref, sg_event_id: `${id}-${what}`, sg_message_id: `${id}.filter0001`},
		...{
			delivered: {event: 'delivered', response: '250 ok'},
			hard: {event: 'bounce', type: 'bounce', status: '5.1.1', reason: user},
			complained: {event: 'spamreport'},
			dropped: {event: 'dropped', reason: 'Bounced Address'},
		}[what],
	}),
	mailgun: (what, {ref, to, id}) => ({
		...{id: `${id}-${what}`, recipient: to, 'user-variables': {'mailctl-ref': ref}},
		...{
			delivered: {event: 'delivered', 'delivery-status': {code: 250, message: 'OK'}},
			hard: {
				event: 'failed',
				severity: 'permanent',
				reason: 'bounce',
				'delivery-status': {code: 550, message: user},
			},
			complained: {event: 'complained'},
			dropped: {event: 'failed', severity: 'permanent', reason: 'suppress-bounce'},
		}[what],
	}),
	postmark: (what, {ref, to, id}) => ({
		...{MessageID: id, Metadata: {'mailctl-ref': ref}},
		...{
			delivered: {RecordType: 'Delivery', Recipient: to, Details: 'smtp;250 ok'},
			hard: {RecordType: 'Bounce', Type: 'HardBounce', Email: to, Details: `smtp;${user}`},
			complained: {RecordType: 'SpamComplaint', Type: 'SpamComplaint', Email: to},
			dropped: {RecordType: 'Bounce', Type: 'ManuallyDeactivated', Email: to},
		}[what],
	}),
	brevo: (what, {ref, to, id}) => ({
		...{email: to, 'message-id': `<${id}>`, 'X-Mailin-custom': JSON.stringify({'mailctl-ref': ref})},
		...{
			delivered: {event: 'delivered'},
			hard: {event: 'hard_bounce', reason: user},
			complained: {event: 'spam'},
			dropped: {event: 'blocked'},
		}[what],
	}),
	mailjet: (what, {ref, to, id}) => ({
		...{email: to, Message_GUID: id, CustomID: ref},
		...{
			delivered: {event: 'sent', smtp_reply: '250 ok'},
			hard: {event: 'bounce', hard_bounce: true, error: 'user unknown', comment: user},
			complained: {event: 'spam'},
			dropped: {event: 'blocked', error: 'preblocked'},
		}[what],
	}),
	sparkpost: (what, {ref, to, id}) => ({
		msys: {
			message_event: {
				...{rcpt_to: to, message_id: id, event_id: `${id}-${what}`, rcpt_meta: {'mailctl-ref': ref}},
				...{
					delivered: {type: 'delivery'},
					hard: {type: 'bounce', bounce_class: '10', error_code: '550', raw_reason: user},
					complained: {type: 'spam_complaint', fbtype: 'abuse'},
					dropped: {type: 'bounce', bounce_class: '25', raw_reason: '554 recipient address was suppressed'},
				}[what],
			},
		},
	}),
	generic: (what, {ref, to}) => ({
		...{ref, recipient: to, occurred_at: '2026-11-20T08:15:32+00:00', metadata: {}},
		...{
			delivered: {type: 'delivered'},
			hard: {type: 'bounced', code: 550, reason: user},
			complained: {type: 'complained'},
			dropped: {type: 'dropped'},
		}[what],
	}),
};

export type Post = {readonly body: string; readonly headers: Readonly<Record<string, string>>};

const batching: ReadonlySet<ProviderName> = new Set([
	'sendgrid',
	'mailjet',
	'sparkpost',
	'brevo',
	'generic',
	'postmark',
]);

/**
 * Some events as a provider posts them: one post of a batch where it knows batches. `key`: signs for those that sign
 * themselves.
 */
export function postsOf(
	provider: ProviderName,
	events: readonly object[],
	secret: string,
	keys: SigningKeys = {},
): Post[] {
	const bodies = batching.has(provider) ? [JSON.stringify(events)] : events.map(event => JSON.stringify(event));
	return bodies.map(body => proven(provider, body, secret, keys));
}

export type SigningKeys = {readonly sns?: FakeSns; readonly sendgridKey?: KeyObject};

/** A body as the provider posts it, with its proof; of SES and Mailgun, one event. */
export function proven(provider: ProviderName, body: string, secret: string, {sns, sendgridKey}: SigningKeys): Post {
	const now = Math.floor(Date.now() / 1000);
	switch (provider) {
		case 'ses':
			return {
				body: sns?.message({Type: 'Notification', Message: body}) ?? '',
				headers: {'content-type': 'text/plain'},
			};
		case 'mailgun': {
			const [timestamp, token] = [String(now), `t${Math.random()}`];
			const signature = createHmac('sha256', secret)
				.update(timestamp + token)
				.digest('hex');
			return json(JSON.stringify({signature: {timestamp, token, signature}, 'event-data': JSON.parse(body)}));
		}
		case 'sendgrid':
			return json(body, {
				'x-twilio-email-event-webhook-timestamp': String(now),
				'x-twilio-email-event-webhook-signature': sign(
					'sha256',
					Buffer.from(`${now}${body}`),
					sendgridKey as KeyObject,
				).toString('base64'),
			});
		case 'generic':
			return json(body, {
				'x-webhook-timestamp': String(now),
				'x-webhook-signature': `sha256=${createHmac('sha256', secret).update(`${now}.${body}`).digest('hex')}`,
			});
		case 'brevo':
			return json(body, {authorization: `Bearer ${secret}`});
		default:
			return json(body, {authorization: `Basic ${Buffer.from(`mailctl:${secret}`).toString('base64')}`});
	}
}

const json = (body: string, headers: Readonly<Record<string, string>> = {}): Post => ({
	body,
	headers: {'content-type': 'application/json', ...headers},
});

/** The keys of a signed event webhook; the public one as SendGrid's console shows it. */
export function sendgridKeys(): {readonly key: KeyObject; readonly shown: string} {
	const {privateKey: key, publicKey} = generateKeyPairSync('ec', {namedCurve: 'P-256'});
	return {key, shown: publicKey.export({type: 'spki', format: 'der'}).toString('base64')};
}

export type FakeSns = {
	/** `host:port`, for MAILCTL_PROVIDER_HOSTS. */
	readonly at: string;
	/** What was asked of it. */
	readonly asked: string[];
	/** A signed SNS message. */
	readonly message: (fields: Readonly<Record<string, string>>) => string;
};

/** SNS: serves its certificate and takes confirmations. */
export async function startFakeSns(
	t: Teardown,
	topic = 'arn:aws:sns:eu-west-1:123456789012:mailctl',
): Promise<FakeSns> {
	const {key, cert} = makeRsaCertificate('sns.eu-west-1.amazonaws.com');
	const asked: string[] = [];
	const server = createServer((request, response) => {
		asked.push(request.url ?? '');
		response.end(request.url?.endsWith('.pem') ? cert : '<ConfirmSubscriptionResponse/>');
	});
	await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
	t.teardown(() => new Promise<void>(resolve => server.close(() => resolve())));
	const base = 'https://sns.eu-west-1.amazonaws.com';
	let n = 0;
	return {
		at: `127.0.0.1:${(server.address() as AddressInfo).port}`,
		asked,
		message(given) {
			n += 1;
			const fields: Record<string, string> = {
				...{MessageId: `m-${n}`, TopicArn: topic, Timestamp: new Date().toISOString(), Message: ''},
				...given,
			};
			const names = ['Message', 'MessageId', 'Subject', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'];
			const signer = createSign('sha256');
			for (const name of names.filter(one => fields[one] !== undefined)) {
				signer.update(`${name}\n${fields[name]}\n`);
			}
			const Signature = signer.sign(key, 'base64');
			return JSON.stringify({
				...fields,
				SignatureVersion: '2',
				Signature,
				SigningCertURL: `${base}/SimpleNotificationService-1.pem`,
			});
		},
	};
}
