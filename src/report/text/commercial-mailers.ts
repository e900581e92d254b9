import {findAddresses} from '../addresses.ts';
import {type Detector, type Finding, mostFindings} from './finding.ts';
import {readListed} from './listed.ts';

const ims = /^.{0,40}did not reach the following recipient(?:\(s\)|s)?[^\n]{0,20}$/im;
// Exchange's heading above the details for administrators, and its line with the server's name, in the languages of
// Exchange.
const diagnosis =
	/^[^\n]{0,20}(?:Diagnostic information for administrators|Diagnoseinformationen für Administratoren|Informations de diagnostic pour les administrateurs|Información de diagnóstico para administradores|Informazioni di diagnostica per gli amministratori|Informações de diagnóstico para administradores|Diagnostisk information för administratörer|Diagnostische informatie voor beheerders|Diagnostiske oplysninger til administratorer|Informacje diagnostyczne dla administratorów|管理者向けの診断情報|供管理员使用的诊断信息)[^\n]{0,20}$/imu;
const server =
	/^[^\n]{0,20}(?:Generating server|Generierender Server|Serveur de g[ée]n[ée]ration|Servidor de generaci[óo]n|Server di generazione|Genererande server|Servidor de origem|Bronserver|サーバーの生成|生成服务器)[ \t]*[:：][^\n]{0,300}$/imu;
const friendly =
	/^[^\n]{0,20}(?:Delivery has failed to these recipients|Your message (?:wasn't|wasn’t|couldn't be|couldn’t be) delivered to|Fehler bei der Nachrichtenzustellung an folgende|[ÉE]chec de la remise (?:pour|aux)|Error de entrega a estos destinatarios|No se pudo entregar (?:a|el)|Delivery is delayed to these recipients|Your message to|次の受信者または配布リストへの配信に失敗)[^\n]{0,120}$/imu;

/** Exchange: the Internet Mail Service's `did not reach the following recipient(s)`, and the reports of Exchange 2007 and later. */
export const readExchange: Detector = ({said, senders}) => {
	const listed = readListed(said, {after: ims});
	if (listed.length > 0) {
		return listed;
	}
	const after = server.test(said) ? server : diagnosis;
	if (diagnosis.test(said) || server.test(said)) {
		const found = readListed(said, {after});
		return found.length > 0 ? found : readListed(said, {after: friendly, until: diagnosis, except: senders});
	}
	return /Exchange|Outlook|Microsoft/i.test(said) ? readListed(said, {after: friendly, except: senders}) : [];
};

const old = /^.{0,40}Delivery to the following recipients? (?:failed permanently|has been delayed)[^\n]{0,40}$/im;
const today =
	/^\**[ \t]*(?:Your message (?:wasn't|wasn’t|was not|couldn't be|couldn’t be) delivered to|There was a (?:temporary )?problem (?:while )?delivering your message to)\s{1,4}/im;
const said550 =
	/(?:The error that the other server returned was|The response(?: from the remote server)? was):?\s{1,4}/i;

/** Gmail without a delivery status: `Delivery to the following recipient failed permanently:`, and the notices of today. */
export const readGmail: Detector = ({said}) => {
	const listed = readListed(said, {after: old});
	if (listed.length > 0) {
		return listed;
	}
	const sentence = today.exec(said);
	if (sentence === null) {
		return [];
	}
	const rest = said.slice(sentence.index + sentence[0].length);
	const found = findAddresses(rest.slice(0, 400))[0];
	// Others begin with the same words and name the address elsewhere.
	const recipient = found !== undefined && found.start < 6 ? found.address : undefined;
	const reply = said550.exec(rest);
	return recipient === undefined
		? []
		: [{recipient, text: reply === null ? rest : rest.slice(reply.index + reply[0].length)}];
};

const notDelivered = /^[ \t]*(?:was|could) not (?:be )?delivered to:?[ \t]*$/im;
const reasons = /^[ \t]*-{3,}[ \t]*Failure Reasons?[ \t]*-{3,}[ \t]*$/im;
const because = /^[ \t]*because:?[ \t]*$/im;

/** Lotus Notes and Domino: `was not delivered to: … because: …`, and the older `Failure Reasons` where the reason stands first. */
export const readDomino: Detector = ({said}) => {
	if (notDelivered.test(said) && because.test(said)) {
		return readListed(said, {after: notDelivered}).map(finding => ({
			...finding,
			text: finding.text.replace(because, ''),
		}));
	}
	const head = reasons.exec(said);
	if (head === null) {
		return [];
	}
	return reasonsFirst(said.slice(head.index + head[0].length));
};

function reasonsFirst(text: string): Finding[] {
	const findings: Finding[] = [];
	let reason = '';
	let isOver = false;
	for (const line of text.split('\n')) {
		const found = findAddresses(line.slice(0, 400))[0];
		if (found === undefined || line.slice(0, found.start).trim().length > 1) {
			reason = isOver && line.trim() !== '' ? line : `${reason}\n${line}`;
			isOver &&= line.trim() === '';
		} else {
			findings.push({recipient: found.address, text: reason.trim()});
			isOver = true;
		}
	}
	return findings.slice(0, mostFindings);
}

const entry = /^[ \t]*Recipient address:[ \t]*/im;

/** Sun, iPlanet, Oracle Messaging Server and its fathers (PMDF): entries of `Recipient address:`, `Reason:`, `Diagnostic code:`. */
export const readMessagingServer: Detector = ({said}) => {
	const findings: Finding[] = [];
	for (const text of said.split(entry).slice(1, mostFindings + 1)) {
		const recipient = findAddresses(text.slice(0, 400))[0];
		const original = /^[ \t]*Original address:[ \t]*(.{1,400})/im.exec(text)?.[1];
		const originalRecipient = original && findAddresses(original)[0]?.address;
		if (recipient !== undefined) {
			const {address, end} = recipient;
			findings.push({recipient: address, text: text.slice(end), ...(originalRecipient && {originalRecipient})});
		}
	}
	return findings;
};

const reason = /This Message was undeliverable due to the following reason:?/i;
const each = /^[ \t]*Recipient:/m;
const bracketed = /^[ \t]*(?:SMTP[ \t]*)?<([^<>\s]{3,320})>[ \t]*$/gm;
const tail = /^[ \t]*Please reply to/im;

/** Post.Office and InterMail, which many carriers run: one reason for all, and below it the recipients. */
export const readPostOffice: Detector = ({said}) => {
	const head = reason.exec(said);
	const body = head === null ? '' : said.slice(head.index + head[0].length);
	if (head === null || each.test(body)) {
		return [];
	}
	const text = body.slice(0, tail.exec(body)?.index);
	return [...text.matchAll(bracketed)]
		.slice(0, mostFindings)
		.flatMap(([, found]) => findAddresses(found as string).slice(0, 1))
		.map(({address}) => ({recipient: address, text}));
};

const unreached = /\[Status:[^\n<]{0,60}Address:[ \t]*<([^<>\s]{3,320})>,([^\n\]]{0,1000})/g;

/** Zoho: `address Invalid Address, ERROR_CODE :550, ERROR_CODE :5.1.1 …`, or `[Status: Error, Address: <address>, ResponseCode 421 …]`. */
export const readZoho: Detector = ({said}) => {
	const findings: Finding[] = [];
	for (const line of said.includes('ERROR_CODE') ? said.split('\n') : []) {
		const found = findAddresses(line.slice(0, 400))[0];
		if (found !== undefined && line.includes('ERROR_CODE') && line.slice(0, found.start).trim().length < 4) {
			// Two separate marks: one before each code.
			const text = line.slice(found.end).replaceAll(/,?[ \t]{0,4}ERROR_CODE[ \t]{0,4}:/g, ' ');
			findings.push({recipient: found.address, text: text.trim()});
		}
	}
	for (const [, recipient, text] of said.matchAll(unreached)) {
		findings.push({recipient: recipient as string, text: text as string});
	}
	return findings.slice(0, mostFindings);
};

const message = /^-{3,}server message[ \t]*$/im;
const command = /^-{3,}SMTP command[ \t]*$/im;
const verbs = {RCPT: 'rcpt', MAIL: 'mail', EHLO: 'ehlo', HELO: 'ehlo'} as const;

/** m-FILTER: the recipient ends the words above `-------server message`, the command that failed stands below. */
export const readMfilter: Detector = ({said}) => {
	const head = message.exec(said);
	const foot = command.exec(said);
	const recipient = head === null ? undefined : findAddresses(said.slice(0, head.index)).at(-1)?.address;
	if (head === null || recipient === undefined) {
		return [];
	}
	const verb =
		foot === null
			? undefined
			: said
					.slice(foot.index + foot[0].length)
					.trimStart()
					.slice(0, 4)
					.toUpperCase();
	const phase = verbs[verb as keyof typeof verbs];
	return [{recipient, text: said.slice(head.index + head[0].length, foot?.index).trim(), ...(phase && {phase})}];
};
