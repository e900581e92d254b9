import {randomBytes} from 'node:crypto';
import {isIPv6} from 'node:net';
import {hostname as machine} from 'node:os';
import {findSubmissionTemplate, makeSubmissionTemplate} from '../admin/submission-template.ts';
import {implicitTlsPort, isLoopback} from '../config/derive.ts';
import type {Settings} from '../config/settings.ts';
import {readTls} from '../inbound/sessions.ts';
import type {Clock} from '../kit/clock.ts';
import type {MailLog} from '../log/mail-events.ts';
import type {NewId} from '../mail/ids.ts';
import type {Store} from '../store/store.ts';
import type {SubmissionListener} from '../submission/listener.ts';
import {createLogIn} from '../submission/log-in.ts';
import {createSubmit} from '../submission/submit.ts';
import type {Intake} from './intake.ts';
import type {Metrics} from './metrics.ts';
import {createThrottle} from './throttle.ts';

export type SubmissionOptions = {
	readonly settings: Settings;
	readonly intake: Intake;
	readonly store: Store;
	readonly clock: Clock;
	readonly newId: NewId;
	readonly mayAccept: () => boolean;
	/** Whether there is room for new mail. */
	readonly hasRoom: () => boolean;
	readonly metrics: Pick<Metrics, 'submitted' | 'submissionRefused'>;
	readonly mailLog: MailLog;
	readonly onStoreError: (error: unknown) => void;
};

/** How often the same refusal of the same client is logged. */
const refusalEveryMs = 60_000;

/** Mail that programs submit by SMTP: served with the API, by the same keys, limits and checks. */
export function createSubmission(options: SubmissionOptions) {
	const {settings, intake, store, clock, newId, mailLog, metrics} = options;
	const {accept, auth, limits, countFailure} = intake;
	const {hostname, submissionListen, submissionTlsCert, submissionTlsKey} = settings;
	const tls = () => readTls(submissionTlsCert, submissionTlsKey);
	const tools = {clock, newId, random: randomBytes, operator: {actor: 'daemon', from: machine()}};
	const tellsOfRefusal = createThrottle(refusalEveryMs, clock);
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
			const {createSubmissionListener} = await import('../submission/listener.ts');
			const made = createSubmissionListener({
				hostname,
				tls: tls(),
				logIn: createLogIn({identify: auth.identify, countFailure}),
				submit: createSubmit({
					accept,
					reader: store.reader,
					templateOf,
					takeRate: async caller => (await limits.take(caller, 'send', 1)) === 1,
					mayAccept: options.mayAccept,
				}),
				hasDisk: options.hasRoom,
				now: clock.now,
				onMail({leftFor, ...mail}) {
					metrics.submitted(mail.ids.length);
					leftFor.forEach(metrics.submissionRefused);
					mailLog.submitted(mail);
				},
				onRefused(refusal) {
					metrics.submissionRefused(refusal.reason);
					if (tellsOfRefusal(`${refusal.client} ${refusal.text}`)) {
						mailLog.submissionRefused(refusal);
					}
				},
				onStoreError: options.onStoreError,
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
		/** The certificate's files are read again; throws where they cannot be, then the one before still holds. */
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
