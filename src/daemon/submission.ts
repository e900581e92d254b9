import {randomBytes} from 'node:crypto';
import {isIPv6} from 'node:net';
import {findSubmissionTemplate, makeSubmissionTemplate} from '../admin/templates.ts';
import {implicitTlsPort, isLoopback} from '../config/derive.ts';
import {readTls} from '../inbound/smtp-listener.ts';
import type {SubmissionListener, SubmissionObserver} from '../submission/submission-listener.ts';
import {Submission} from '../submission/submit.ts';
import {actingOf, type Context} from './context.ts';
import type {Intake} from './intake.ts';

/** Mail that programs submit by SMTP: served with the API, by the same keys, limits and checks. */
export function createSubmission(
	context: Pick<Context, 'settings' | 'store' | 'clock' | 'newId' | 'mayAccept' | 'hasSpace'> & {
		readonly observer: SubmissionObserver;
	},
	{accept, auth, limits, countFailure}: Pick<Intake, 'accept' | 'auth' | 'limits' | 'countFailure'>,
) {
	const {settings, store, observer} = context;
	const {hostname, submissionListen, submissionTlsCert, submissionTlsKey} = settings;
	const tls = () => readTls(submissionTlsCert, submissionTlsKey);
	const tools = {...actingOf(context), clock: context.clock, random: randomBytes};
	let listener: SubmissionListener | null = null;

	async function templateOf(workspaceId: string): Promise<string> {
		const found = await findSubmissionTemplate(store.reader, workspaceId);
		return found ?? (await store.writer.transaction(trx => makeSubmissionTemplate(trx, tools, workspaceId)));
	}

	return {
		/** Resolves with its addresses, `host:port` between commas; null: it is off. Rejects where it cannot listen. */
		async listen(): Promise<string | null> {
			if (!settings.roles.includes('api') || submissionListen.length === 0) {
				return null;
			}
			const {SubmissionListener} = await import('../submission/submission-listener.ts');
			const made = new SubmissionListener({
				hostname,
				tls: tls(),
				submission: new Submission({
					identify: auth.identify,
					countFailure,
					accept,
					reader: store.reader,
					templateOf,
					takeRate: async caller => (await limits.take(caller, 'send', 1)) === 1,
					mayAccept: context.mayAccept,
				}),
				hasDisk: context.hasSpace,
				now: context.clock.now,
				observer,
			});
			listener = made;
			const addresses: string[] = [];
			for (const {host, port} of submissionListen) {
				const implicitTls = port === implicitTlsPort;
				const bound = await made.listen({host, port, implicitTls, isLoopback: isLoopback(host)});
				addresses.push(isIPv6(bound.address) ? `[${bound.address}]:${bound.port}` : `${bound.address}:${bound.port}`);
			}
			return addresses.join(',');
		},
		/** Reads the certificate's files again. Throws where they cannot be read; the former certificate stays in use. */
		reload(): void {
			const renewed = tls();
			if (renewed !== null) {
				listener?.useTls(renewed);
			}
		},
		sessions: (): number | null => listener?.sessions() ?? null,
		close: async (): Promise<void> => await listener?.close(),
	};
}
