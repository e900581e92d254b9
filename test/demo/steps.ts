import {MailctlError} from 'mailctl/client';
import {waitFor} from '../helpers/wait.ts';
import {distrust, type Post} from '../helpers/webhook-receiver.ts';
import {fieldOf, type Lab, mailTo} from './lab.ts';

/** What a step of the demo left, in words, and the commands that show it. */
export type Step = {readonly title: string; readonly left: readonly string[]; readonly look: readonly string[]};

export const steps: ReadonlyArray<(lab: Lab) => Promise<Step>> = [send, bounce, complain, unsubscribe, overtake, later];

async function send(lab: Lab): Promise<Step> {
	const {id} = await sent(lab, 'ada@inbox.example', 'delivered');
	const mail = await waitFor('the mail', () => mailTo(lab, 'ada@inbox.example'));
	const post = await posted(lab, id, 'delivered');
	const fault = distrust(post, lab.endpoint.signing_secret, Date.now());
	return {
		title: 'Send a mail',
		left: [
			`POST /v1/messages answered 202 with the id ${id}.`,
			`The daemon asked DNS for the MX of inbox.example and delivered ${mail.data.length} bytes there, signed for ${signersOf(fieldOf(mail, 'DKIM-Signature'))}.`,
			`The timeline says: ${(await timeline(lab, id)).join(', ')}.`,
			`The shop's webhook got the event "delivered". Its signature is ${fault === null ? 'right' : 'wrong'}.`,
		],
		look: [`message show ${id}`, `message raw ${id}`, `webhook deliveries ${lab.endpoint.id}`],
	};
}

async function bounce(lab: Lab): Promise<Step> {
	const to = 'nobody@inbox.example';
	const {id} = await sent(lab, to, 'bounced');
	await posted(lab, id, 'bounced');
	return {
		title: 'Send to an address that does not exist',
		left: [
			'The recipient\'s server answered "550 5.1.1 There is nobody of this name".',
			'That is a hard bounce: the message is bounced, the webhook got "bounced", and the address is on the suppression list.',
			`A second send to it is refused at once: ${await refusal(lab, {to})}.`,
		],
		look: [`suppression check ${to}`, `message show ${id}`, "bounce explain --reply '550 5.1.1 User unknown'"],
	};
}

async function complain(lab: Lab): Promise<Step> {
	const to = 'bob@inbox.example';
	const {id} = await sent(lab, to, 'delivered');
	const mail = await waitFor('the mail', () => mailTo(lab, to));
	await lab.report(complaintAbout(mail.data.toString('latin1'), to));
	await posted(lab, id, 'complained');
	return {
		title: 'A recipient presses "this is spam"',
		left: [
			`Bob's provider sent a report (ARF) to ${lab.feedback}. The signed id in the mail that it returns says which copy it is about.`,
			'The message is complained, the webhook got "complained", and Bob is on the suppression list.',
			`A second send to him is refused: ${await refusal(lab, {to})}.`,
		],
		look: [`message show ${id}`, 'suppression list', `webhook deliveries ${lab.endpoint.id}`],
	};
}

async function unsubscribe(lab: Lab): Promise<Step> {
	const to = 'cleo@inbox.example';
	const {id} = await sent(lab, to, 'delivered', {unsubscribeGroup: 'news'});
	const mail = await waitFor('the mail', () => mailTo(lab, to));
	const [, link = ''] = /<(https?:[^>]+)>/.exec(fieldOf(mail, 'List-Unsubscribe')) ?? [];
	const {status} = await fetch(link, {
		method: 'POST',
		body: new URLSearchParams([['List-Unsubscribe', 'One-Click']]),
	});
	const refused = await refusal(lab, {to, unsubscribeGroup: 'news'});
	const other = await sent(lab, to, 'delivered');
	return {
		title: 'A recipient unsubscribes from a newsletter',
		left: [
			`Cleo's mail program posted to the link in the List-Unsubscribe header (one click, RFC 8058) and got ${status}.`,
			`Cleo is out of the topic news: another newsletter is refused (${refused}).`,
			`A mail without a topic, such as a receipt, still arrives: ${other.id} is delivered.`,
		],
		look: ['topic list', `contact show ${to}`, `message show ${id}`],
	};
}

async function overtake(lab: Lab): Promise<Step> {
	const {program, inbox, client, mail} = lab;
	const before = inbox.received.length;
	await program.cli('queue', 'suspend', 'inbox.example', '--reason', 'demo');
	const newsletters = Array.from({length: 50}, (_, n) => ({...mail, to: `reader${n}@inbox.example`}));
	await client.messages.batch({messages: newsletters.map(one => ({...one, priority: 'low' as const}))});
	const to = 'dan@inbox.example';
	const {id} = await client.messages.send({...mail, to, priority: 'high'});
	await program.cli('queue', 'resume', 'inbox.example');
	await waitFor('the mails', () => inbox.received.length >= before + newsletters.length + 1);
	const place = inbox.received.slice(before).findIndex(one => one.to.some(address => address.includes(to))) + 1;
	return {
		title: 'A log-in code overtakes a newsletter',
		left: [
			`While nothing went to inbox.example, ${newsletters.length} newsletters of low priority were accepted, and then a code of high priority.`,
			`When mail went again, the code was number ${place} of the ${newsletters.length + 1} mails that arrived.`,
		],
		look: [`message show ${id}`, `queue trace ${id}`],
	};
}

async function later(lab: Lab): Promise<Step> {
	const {client, mail} = lab;
	const send = (to: string) => client.messages.send({...mail, to, sendAt: '+2h'});
	const {id} = await send('eve@inbox.example');
	const {id: cancelled} = await send('finn@inbox.example');
	const {status: ended} = await client.messages.cancel(cancelled, {});
	const {status, send_at: sendAt} = await client.messages.get(id);
	return {
		title: 'A mail is sent later, and another one never',
		left: [
			`Eve's mail has the sendAt "+2h". It is ${status}, and is sent at ${sendAt}.`,
			`Finn's had the same. It was cancelled before its time, and is ${ended}.`,
		],
		look: ['message list --scheduled', `message show ${cancelled}`, `message reschedule ${id} +3h`],
	};
}

/** Sends and waits until the message has this status. */
async function sent(lab: Lab, to: string, status: string, more: object = {}): Promise<{id: string}> {
	const {id} = await lab.client.messages.send({...lab.mail, to, data: {name: to.split('@')[0]}, ...more});
	await waitFor(`the mail to ${to} is ${status}`, async () => (await lab.client.messages.get(id)).status === status);
	return {id};
}

/** The webhook's request that tells this of the message. */
async function posted({receiver}: Lab, id: string, type: string): Promise<Post> {
	const isOf = ({body}: Post) => JSON.parse(body.toString()).type === type;
	return await waitFor(`the webhook gets ${type}`, () => receiver.postsTo('/mail', id).find(isOf));
}

/** The code with which a send is refused. */
async function refusal(lab: Lab, body: {readonly to: string; readonly unsubscribeGroup?: string}): Promise<string> {
	try {
		await lab.client.messages.send({...lab.mail, ...body});
		return 'it was not';
	} catch (error) {
		if (error instanceof MailctlError) {
			return `${error.status} ${error.code}`;
		}
		throw error;
	}
}

async function timeline(lab: Lab, id: string): Promise<string[]> {
	const types: string[] = [];
	for await (const {type} of lab.client.messages.events(id)) {
		types.push(type);
	}
	return types;
}

function signersOf(signature: string): string {
	return /\bd=([^;\s]+)/.exec(signature)?.[1] ?? 'nobody';
}

/** A report of abuse (RFC 5965) that returns the mail. */
export function complaintAbout(mail: string, recipient: string): string {
	return [
		'From: Feedback <reports@inbox.example>',
		'Subject: Abuse report',
		'MIME-Version: 1.0',
		'Content-Type: multipart/report; report-type=feedback-report; boundary="report"',
		'',
		'--report',
		'Content-Type: text/plain',
		'',
		'A user marked this mail as spam.',
		'--report',
		'Content-Type: message/feedback-report',
		'',
		'Feedback-Type: abuse',
		'User-Agent: demo/1',
		'Version: 1',
		`Original-Rcpt-To: ${recipient}`,
		'',
		'--report',
		'Content-Type: message/rfc822',
		'',
		mail,
		'--report--',
		'',
	].join('\r\n');
}
