import {chmod, chown, mkdir, utimes, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {freePort} from '../free-port.ts';
import {maildirFiles, readMaildir, type StoredMail} from '../maildir.ts';
import {findPeer, idOf, instanceFolder, type PeerRoot, peerLog, runInside, startInside, untilGreets} from './chroot.ts';
import {type Account, startPasswordCheck} from './password-check.ts';

export type PostfixOptions = {
	readonly hostname: string;
	/** Every address of these domains has a mailbox here. */
	readonly domains?: readonly string[];
	/** Addresses with a Maildir of their own; mail for others of the domains goes into `everyone`. */
	readonly mailboxes?: readonly string[];
	/** Addresses of the domains, with a Maildir in common: with these nobody else has a mailbox. */
	readonly users?: readonly string[];
	/**
	 * A server on 127.0.0.1 that stores the mail: its port for LMTP, and the addresses that it is asked about first.
	 */
	readonly store?: {readonly port: number; readonly asks: readonly string[]};
	/** The port of a policy service on 127.0.0.1, such as postgrey, that is asked about each recipient. */
	readonly policyPort?: number;
	/** The largest message it takes, in octets. */
	readonly largest?: number;
	/** Keywords that it leaves out of its answer to EHLO, such as `pipelining`. */
	readonly withheld?: readonly string[];
	/** Any further lines of main.cf. */
	readonly more?: readonly string[];
	/** A smarthost: asks for this password, after STARTTLS only, and takes mail for anybody. */
	readonly auth?: Account;
	/** The port of 127.0.0.1 that mail for other domains is handed to. */
	readonly relayTo?: number;
	/** Offer STARTTLS with a self-signed certificate (default). */
	readonly tls?: boolean;
};

export type Postfix = {
	readonly hostname: string;
	/** On 127.0.0.1. */
	readonly port: number;
	/** The Maildir of an address given in `mailboxes`, or of `everyone`. */
	readonly maildir: (address: string) => string;
	/** How many messages lie in all Maildirs. */
	readonly count: () => Promise<number>;
	/** All messages of all Maildirs. */
	readonly mails: () => Promise<StoredMail[]>;
	readonly log: () => Promise<string>;
};

const everyone = 'everyone';
const lifetime = '600';

/**
 * Starts a private Postfix on a free port of 127.0.0.1 and waits until it greets. It ends with the test, at the latest
 * after ten minutes; the log of a failed test is printed. Null where Postfix cannot run.
 */
export async function startPostfix(t: ExecutionContext, options: PostfixOptions): Promise<Postfix | null> {
	const root = await findPeer(t, 'postfix');
	if (!root) {
		return null;
	}

	const {outside, inside} = await instanceFolder(t, root);
	const port = await freePort();
	const log = peerLog(t, options.hostname, join(outside, 'log/mail.log'));

	await makeFolders(outside, root);
	await writeConfiguration(join(outside, 'etc'), {
		'main.cf': mainCf(options, root, inside),
		'master.cf': masterCf(port),
		mailboxes: mailboxTable(options),
		asked: (options.store?.asks ?? []).map(address => `${address} reject_unverified_recipient\n`).join(''),
	});
	if (options.tls !== false) {
		await makeCertificate(root, inside, options.hostname);
	}

	if (options.auth) {
		await startPasswordCheck(t, join(outside, 'spool/private/password'), options.auth);
	}

	const master = startInside(t, root, '/usr/lib/postfix/sbin/master', ['-d', '-e', lifetime, '-c', `${inside}/etc`]);
	await untilGreets(options.hostname, master, port, log);

	const maildir = (address: string) =>
		join(outside, 'mail', options.mailboxes?.includes(address) ? mailboxFolder(address) : everyone);
	const maildirs = [...(options.mailboxes ?? []), everyone].map(maildir);
	return {
		hostname: options.hostname,
		port,
		maildir,
		count: async () => (await Promise.all(maildirs.map(maildirFiles))).flat().length,
		mails: async () => (await Promise.all(maildirs.map(readMaildir))).flat(),
		log,
	};
}

/** What `postfix check` would make: the queue and its owners. */
async function makeFolders(outside: string, root: PeerRoot): Promise<void> {
	const postfix = idOf(root, 'postfix');
	const postdrop = idOf(root, 'postdrop');
	const folders: Array<[string, number, number, number]> = [
		['etc', 0, 0, 0o755],
		['log', 0, 0, 0o755],
		['data', postfix, postfix, 0o700],
		['mail', idOf(root, 'vmail'), idOf(root, 'vmail'), 0o755],
		['spool', 0, 0, 0o755],
		['spool/pid', 0, 0, 0o755],
		['spool/public', postfix, postdrop, 0o710],
		['spool/maildrop', postfix, postdrop, 0o730],
	];
	for (const queue of 'active bounce corrupt defer deferred flush hold incoming private saved trace'.split(' ')) {
		folders.push([`spool/${queue}`, postfix, 0, 0o700]);
	}

	for (const [folder, user, group, mode] of folders) {
		await mkdir(join(outside, folder));
		await chown(join(outside, folder), user, group);
		await chmod(join(outside, folder), mode);
	}
}

/**
 * Postfix waits seconds until a file is no longer fresh, lest it reads a half-written one: these say that they are old.
 */
async function writeConfiguration(folder: string, files: Record<string, string>): Promise<void> {
	const hourAgo = Date.now() / 1000 - 3600;
	for (const [name, text] of Object.entries(files)) {
		await writeFile(join(folder, name), text);
		await utimes(join(folder, name), hourAgo, hourAgo);
	}
}

function mailboxFolder(address: string): string {
	return address.replaceAll('/', '_');
}

function mailboxTable({domains = [], mailboxes = [], users, store}: PostfixOptions): string {
	const others = users === undefined ? domains.map(domain => `@${domain}`) : [...users, ...(store?.asks ?? [])];
	return [
		...mailboxes.map(address => `${address} ${mailboxFolder(address)}/`),
		...others.map(address => `${address} ${everyone}/`),
		'',
	].join('\n');
}

async function makeCertificate(root: PeerRoot, inside: string, hostname: string): Promise<void> {
	const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
	args.push('-subj', `/CN=${hostname}`, '-addext', `subjectAltName=DNS:${hostname}`);
	args.push('-keyout', `${inside}/etc/key.pem`, '-out', `${inside}/etc/cert.pem`);
	await runInside(root, '/usr/bin/openssl', args);
}

function mainCf(options: PostfixOptions, root: PeerRoot, inside: string): string {
	const {hostname, domains = [], auth, relayTo, tls = true, store, policyPort, withheld = [], more = []} = options;
	return `compatibility_level = 3.6
queue_directory = ${inside}/spool
data_directory = ${inside}/data
maillog_file = ${inside}/log/mail.log
maillog_file_prefixes = ${inside}
mail_owner = postfix
setgid_group = postdrop
myhostname = ${hostname}
mydestination =
mynetworks =
alias_maps =
local_recipient_maps =
# A loopback client is a stranger like any other: nothing is added to its headers.
local_header_rewrite_clients =
inet_interfaces = loopback-only
inet_protocols = ipv4
disable_dns_lookups = yes
smtp_host_lookup = native
virtual_mailbox_domains = ${domains.join(' ')}
virtual_mailbox_maps = texthash:${inside}/etc/mailboxes
virtual_mailbox_base = ${inside}/mail
virtual_uid_maps = static:${idOf(root, 'vmail')}
virtual_gid_maps = static:${idOf(root, 'vmail')}
virtual_mailbox_limit = 0
virtual_transport = ${store ? `lmtp:inet:127.0.0.1:${store.port}` : 'virtual'}
message_size_limit = ${options.largest ?? 50_000_000}
smtpd_discard_ehlo_keywords = ${withheld.join(', ')}
smtpd_recipient_restrictions = ${[
		...(store ? [`check_recipient_access texthash:${inside}/etc/asked`] : []),
		...(policyPort ? [`check_policy_service inet:127.0.0.1:${policyPort}`] : []),
	].join(', ')}
unverified_recipient_reject_code = 550
address_verify_poll_delay = 1s
relayhost = ${relayTo ? `[127.0.0.1]:${relayTo}` : ''}
# Without a next hop only its own reports would leave.
default_transport = ${relayTo ? 'smtp' : 'discard'}
smtpd_relay_restrictions = permit_sasl_authenticated, reject_unauth_destination
smtpd_client_restrictions = ${auth ? 'permit_sasl_authenticated, reject' : ''}
smtpd_delay_reject = yes
smtpd_sasl_auth_enable = ${auth ? 'yes' : 'no'}
smtpd_sasl_type = dovecot
smtpd_sasl_path = private/password
smtpd_sasl_security_options = noanonymous
smtpd_tls_auth_only = yes
smtpd_tls_security_level = ${tls ? 'may' : 'none'}
smtpd_tls_cert_file = ${inside}/etc/cert.pem
smtpd_tls_key_file = ${inside}/etc/key.pem
smtpd_tls_loglevel = 1
smtp_tls_security_level = may
# Loopback is one client for Postfix: its limits for a single client, and its pauses for errors, would measure themselves.
smtpd_client_event_limit_exceptions = 127.0.0.0/8
smtpd_error_sleep_time = 0
in_flow_delay = 0
default_destination_concurrency_limit = 20
initial_destination_concurrency = 10
${more.join('\n')}
`;
}

/**
 * The queue manager wakes every two seconds: a mail that it finds still being delivered it puts back among the incoming
 * ones, at which it looks when it wakes or when another mail comes, and usually it wakes after five minutes.
 */
function masterCf(port: number): string {
	return `127.0.0.1:${port} inet n - n - - smtpd
cleanup   unix  n - n - 0 cleanup
qmgr      unix  n - n 2 1 qmgr
pickup    unix  n - n 60 1 pickup
tlsmgr    unix  - - n 1000? 1 tlsmgr
rewrite   unix  - - n - - trivial-rewrite
bounce    unix  - - n - 0 bounce
defer     unix  - - n - 0 bounce
trace     unix  - - n - 0 bounce
verify    unix  - - n - 1 verify
flush     unix  n - n 1000? 0 flush
proxymap  unix  - - n - - proxymap
smtp      unix  - - n - - smtp
lmtp      unix  - - n - - lmtp
relay     unix  - - n - - smtp
showq     unix  n - n - - showq
error     unix  - - n - - error
retry     unix  - - n - - error
discard   unix  - - n - - discard
virtual   unix  - n n - - virtual
anvil     unix  - - n - 1 anvil
scache    unix  - - n - 1 scache
postlog   unix-dgram n - n - 1 postlogd
`;
}
