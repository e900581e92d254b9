import {createHash} from 'node:crypto';
import {gzipSync} from 'node:zlib';
import {dkimSignatures, importSigningKey, type SigningKey} from '../compose/dkim.ts';
import {headerField} from '../compose/header-field.ts';
import {inTime, repeated} from '../kit/clock.ts';
import {groupBy} from '../kit/collections.ts';
import {dayMs, hourMs, storeTime} from '../kit/time.ts';
import {parseAddress} from '../mail/address.ts';
import type {TlsCount} from '../mail/aggregate.ts';
import {parseTagList} from '../mail/dkim-record.ts';
import type {Resolver} from '../net/dns.ts';
import {createResolver} from '../net/resolver.ts';
import {sendDirectly} from '../resources/alerts/send.ts';
import {
	claimTlsRecipient,
	claimTlsReport,
	endTlsReport,
	findOwnDomain,
	listDueTlsReports,
	readTlsDay,
} from '../resources/domains/reports-store.ts';
import {findPolicy, type StoredPolicy} from '../resources/domains/tls-store.ts';
import type {Context} from './context.ts';
import {Signing} from './recipient-messages.ts';

const checkMs = 10 * 60_000;
/** A day is reported only after this time, because attempts that began before midnight may end after it. */
const settleMs = 30 * 60_000;
/** A report that could not be sent is attempted again after this time until the day is over. */
const retryMs = 2 * hourMs;
const maxConcurrent = 1000;
const maxAddresses = 5;
const dnsTimeoutMs = 5000;
const sendLimitMs = 20_000;

type ReportsContext = Pick<Context, 'settings' | 'store' | 'vault' | 'clock' | 'observer'>;

/** Sends yesterday's TLS reports (RFC 8460) to domains that request them, each one once across all nodes. */
export function watchTlsReports(context: ReportsContext) {
	const {settings, store, vault, clock, observer} = context;
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 2, clock});
	const signing = new Signing(store, vault, clock, settings);
	let isStopping = false;

	async function sendDue(): Promise<void> {
		const day = storeTime(clock.now() - dayMs - settleMs).slice(0, 10);
		const due = await listDueTlsReports(store.reader, day, storeTime(clock.now()), maxConcurrent);
		const own = due.length === 0 ? undefined : await findOwnDomain(store.reader, settings.hostname);
		const keys =
			own === undefined ? [] : (await signing.keys((await signing.of(own.id)).keyIds)).map(importSigningKey);
		if (own === undefined || keys.length === 0) {
			return; // Reports must be signed (RFC 8460 §3), which needs a domain with keys.
		}
		for (const domain of due) {
			const now = clock.now();
			const claim = {day, domain, now: storeTime(now), due: storeTime(now + retryMs)};
			if (isStopping || !(await store.writer.transaction(trx => claimTlsReport(trx, claim)))) {
				continue;
			}
			const error = await sendReport(context, resolver, {day, domain, own: own.name, keys}).then(
				() => null,
				(failure: Error) => failure.message,
			);
			await store.writer.transaction(trx => endTlsReport(trx, {day, domain, now: storeTime(clock.now())}, error));
		}
	}

	const watch = repeated(checkMs, sendDue, observer.storeFailed);
	return {
		sendDue: watch.now,
		/** Resolves when the current report has ended. */
		async stop(): Promise<void> {
			isStopping = true;
			resolver.cancel();
			await watch.stop();
		},
	};
}

/** Sends the report if the domain requests one. Rejects only if no address accepted it, so that none gets it twice. */
async function sendReport(
	context: ReportsContext,
	resolver: Resolver,
	report: Pick<ReportMail, 'day' | 'domain' | 'own' | 'keys'>,
): Promise<void> {
	const {settings, store, clock, observer} = context;
	const {day, domain} = report;
	const addresses = await claimAddresses(context, await reportAddresses(resolver, domain));
	if (addresses.length === 0) {
		return;
	}
	const [counts, policy] = [await readTlsDay(store.reader, day, domain), await findPolicy(store.reader, domain)];
	const sendTo = async (to: string): Promise<string> => {
		const raw = tlsReportMail({...report, host: settings.hostname, to, counts, policy, now: clock.now()});
		// Stopping the daemon waits for this.
		const send = () => sendDirectly({settings, clock, resolver}, to, {raw, envelope: {from: '', to}}, true);
		await inTime(sendLimitMs, () => new Error(`not finished within ${sendLimitMs / 1000} s`), send);
		return to;
	};
	const results = await Promise.allSettled(addresses.map(sendTo));
	const sent = results.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []));
	const failed = results.find(result => result.status === 'rejected');
	if (sent.length === 0 && failed) {
		throw failed.reason;
	}
	observer.logger.info({event: 'tls_report_sent', domain, day, to: sent});
}

/** Returns the addresses that may get another report today: any domain may name somebody else's address. */
async function claimAddresses(
	{store, clock, observer}: ReportsContext,
	addresses: readonly string[],
): Promise<readonly string[]> {
	const today = storeTime(clock.now()).slice(0, 10);
	const claimed: string[] = [];
	for (const [mailbox, to] of new Map(addresses.map(address => [mailboxOf(address), address]))) {
		if (await store.writer.transaction(trx => claimTlsRecipient(trx, today, mailbox))) {
			claimed.push(to);
		} else {
			observer.logger.info({event: 'tls_report_limited', to});
		}
	}
	return claimed;
}

/** Returns the `mailto:` addresses of a TLSRPT record (RFC 8460 §3), not `https:`. Rejects if DNS does not respond. */
export async function reportAddresses(resolver: Pick<Resolver, 'txt'>, domain: string): Promise<readonly string[]> {
	const answer = await resolver.txt(`_smtp._tls.${domain}`);
	if (answer.kind === 'failed') {
		throw new Error(`DNS did not answer (${answer.code})`);
	}
	const records = answer.kind === 'found' ? answer.records.filter(text => /^v=TLSRPTv1\s*;/.test(text)) : [];
	const uris = records.length === 1 ? (parseTagList(records[0] as string)?.get('rua') ?? '').split(',') : [];
	return uris.slice(0, maxAddresses).flatMap(uri => {
		const [, encoded = ''] = /^\s*mailto:([^!?\s]{1,320})/i.exec(uri) ?? [];
		const parsed = parseAddress(
			encoded.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
			{allowsUtf8Local: false},
		);
		return parsed.ok ? [parsed.address.wire] : [];
	});
}

/** Returns `r@b.example` for `R+any@b.example`: the mailbox that the message probably reaches. */
export const mailboxOf = (address: string): string => address.toLowerCase().replace(/\+[^@]*/, '');

/** `domain` is the one whose mail servers are reported on, and `own` is our domain, which signs. */
type ReportMail = Readonly<Record<'day' | 'domain' | 'own' | 'host' | 'to', string>> & {
	readonly counts: ReadonlyArray<TlsCount & {readonly host: string}>;
	readonly policy: StoredPolicy | null;
	readonly keys: readonly SigningKey[];
	readonly now: number;
};

/** Returns the signed message with a report (RFC 8460 §5.3). A report that is sent twice has the same id. */
export function tlsReportMail({day, domain, own, host, to, counts, policy, keys, now}: ReportMail): string {
	const [begin, end] = [`${day}T00:00:00Z`, `${day}T23:59:59Z`];
	const id = `${begin}_${domain}@${host}`;
	const hash = createHash('sha256').update(id).digest('hex').slice(0, 32);
	const json = JSON.stringify({
		'organization-name': own,
		'date-range': {'start-datetime': begin, 'end-datetime': end},
		'contact-info': `postmaster@${own}`,
		'report-id': id,
		policies: [...groupBy(counts, row => row.policy)].map(([type, rows]) => toPolicy(domain, type, rows, policy)),
	});
	const seconds = (time: string) => Date.parse(time) / 1000;
	const name = `${own}!${domain}!${seconds(begin)}!${seconds(end)}.json.gz`;
	const boundary = `=_${hash}`;
	const body = [
		`--${boundary}`,
		'Content-Type: text/plain; charset=us-ascii',
		'',
		`TLS connections to the mail servers of ${domain} on ${day} (UTC),`,
		`as seen by ${host}.`,
		'',
		`--${boundary}`,
		'Content-Type: application/tlsrpt+gzip',
		'Content-Transfer-Encoding: base64',
		`Content-Disposition: attachment; filename="${name}"`,
		'',
		gzipSync(json)
			.toString('base64')
			.replaceAll(/.{76}(?=.)/g, '$&\r\n'),
		`--${boundary}--`,
		'',
	].join('\r\n');
	const fields = [
		headerField('From', [`tls-reports@${own}`]),
		headerField('To', [to]),
		headerField('Subject', ['Report Domain:', domain, 'Submitter:', own, 'Report-ID:', `<${id}>`]),
		headerField('Date', [new Date(now).toUTCString().replace('GMT', '+0000')]),
		headerField('Message-ID', [`<${hash}@${own}>`]),
		headerField('TLS-Report-Domain', [domain]),
		headerField('TLS-Report-Submitter', [own]),
		headerField('Auto-Submitted', ['auto-generated']),
		headerField('MIME-Version', ['1.0']),
		headerField('Content-Type', ['multipart/report;', 'report-type=tlsrpt;', `boundary="${boundary}"`]),
	];
	const lines = [...dkimSignatures(fields, Buffer.from(body), keys, now), ...fields].map(({line}) => line);
	return `${lines.join('\r\n')}\r\n\r\n${body}`;
}

/** Returns one policy with its results. DANE records are not stored, so `tlsa` has no `policy-string`. */
function toPolicy(domain: string, type: string, counts: ReportMail['counts'], policy: StoredPolicy | null) {
	const sum = (rows: ReportMail['counts']) => rows.reduce((total, {n}) => total + n, 0);
	const failed = counts.filter(({result}) => result !== 'success');
	const sts = type === 'sts' && policy !== null && {'policy-string': policyLines(policy), 'mx-host': policy.mx};
	return {
		policy: {'policy-type': type, ...sts, 'policy-domain': domain},
		summary: {
			'total-successful-session-count': sum(counts) - sum(failed),
			'total-failure-session-count': sum(failed),
		},
		'failure-details': failed.map(({result, host, n}) => ({
			'result-type': result,
			'receiving-mx-hostname': host,
			'failed-session-count': n,
		})),
	};
}

/** Returns the lines of an MTA-STS policy. */
function policyLines({mode, mx, fetchedAt, expiresAt}: StoredPolicy): string[] {
	const age = Math.round((Date.parse(expiresAt) - Date.parse(fetchedAt)) / 1000);
	return ['version: STSv1', `mode: ${mode}`, ...mx.map(host => `mx: ${host}`), `max_age: ${age}`];
}
