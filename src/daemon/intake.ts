import {randomBytes} from 'node:crypto';
import {createAuth} from '../api/auth.ts';
import {createFailureLimit, KeyRateLimits} from '../api/rate-limit.ts';
import {implicitTlsPort, isLoopback} from '../config/derive.ts';
import type {LiveSettings} from '../config/settings.ts';
import {readTls} from '../net/smtp-listener.ts';
import {findKey, noteKeyUse} from '../resources/keys/store.ts';
import {ensureSubmissionTemplate, findSubmissionTemplate} from '../resources/templates/versions.ts';
import {Catalog} from '../send/catalog.ts';
import {type AcceptOptions, createAccept} from '../send/send.ts';
import type {SubmissionListener, SubmissionObserver} from '../send/submission/submission-listener.ts';
import {Submission} from '../send/submission/submit.ts';
import {createAcceptWrite} from '../send/write.ts';
import {sharePart} from '../store/nodes.ts';
import {hostPort} from './check-ports.ts';
import {type Context, toActing} from './context.ts';

type IntakeContext = Pick<Context, 'store' | 'vault' | 'clock' | 'newId'> & {
	readonly live: () => Pick<LiveSettings, 'rateLimit' | 'authFailures' | 'idempotencyRetention'>;
};

/** Authentication, limits and acceptance of sends, shared by HTTP and SMTP. */
export function createIntake(
	{live, store, vault, clock, newId}: IntakeContext,
	accepting: Pick<AcceptOptions, 'onWriting' | 'onAccepted'>,
) {
	const {reader, writer} = store;
	const catalog = new Catalog(reader);
	const isShared = store.dialect.isShared;
	const limits = new KeyRateLimits(clock, () => live().rateLimit, isShared ? part => sharePart(reader, part) : null);
	const countFailure = createFailureLimit(clock, () => live().authFailures);
	const auth = createAuth({
		findKey: hash => findKey(reader, hash),
		clock,
		limits,
		countFailure,
		onUse: (id, at) => noteKeyUse(writer, id, at),
	});
	const keyRetention = () => live().idempotencyRetention;
	const acceptWrite = createAcceptWrite({clock, newId, keyRetention});
	return {
		accept: createAccept({catalog, vault, reader, writer, clock, acceptWrite, keyRetention, ...accepting}),
		auth,
		limits,
		countFailure,
		/** Drops everything cached from the store. */
		forget(): void {
			catalog.clear();
			auth.clear();
		},
	};
}

export type Intake = ReturnType<typeof createIntake>;

/** Accepts mail that programs submit over SMTP, with the keys, limits and checks of the API. */
export function createSubmission(
	context: Pick<Context, 'settings' | 'store' | 'clock' | 'newId' | 'mayAccept' | 'hasSpace' | 'certificates'> & {
		readonly observer: SubmissionObserver;
	},
	{accept, auth, limits, countFailure}: Pick<Intake, 'accept' | 'auth' | 'limits' | 'countFailure'>,
) {
	const {settings, store, observer, certificates} = context;
	const {hostname, submissionListen, submissionTlsCert, submissionTlsKey} = settings;
	const readCertificate = () => readTls(submissionTlsCert, submissionTlsKey) ?? certificates.own();
	const tools = {...toActing(context), clock: context.clock, random: randomBytes};
	let listener: SubmissionListener | null = null;

	/** Reads the certificate again. Throws if its files cannot be read; the previous certificate remains in use. */
	function reload(): void {
		const tls = readCertificate();
		if (tls !== null) {
			listener?.useTls(tls);
		}
	}

	async function findTemplate(workspaceId: string): Promise<string> {
		const templateId = await findSubmissionTemplate(store.reader, workspaceId);
		return templateId ?? (await store.writer.transaction(trx => ensureSubmissionTemplate(trx, tools, workspaceId)));
	}

	return {
		/** Resolves with its addresses, separated by commas, or `null` if it is off. Rejects if it cannot listen. */
		async listen(): Promise<string | null> {
			if (!settings.roles.includes('api') || submissionListen.length === 0) {
				return null;
			}
			const {SubmissionListener} = await import('../send/submission/submission-listener.ts');
			const newListener = new SubmissionListener({
				hostname,
				tls: readCertificate(),
				submission: new Submission({
					identify: auth.identify,
					countFailure,
					accept,
					reader: store.reader,
					templateOf: findTemplate,
					takeRate: async caller => (await limits.take(caller, 'send', 1)) === 1,
					mayAccept: context.mayAccept,
				}),
				hasDisk: context.hasSpace,
				now: context.clock.now,
				observer,
			});
			listener = newListener;
			certificates.onChange(reload);
			const addresses: string[] = [];
			for (const {host, port} of submissionListen) {
				const implicitTls = port === implicitTlsPort;
				const bound = await newListener.listen({host, port, implicitTls, isLoopback: isLoopback(host)});
				addresses.push(hostPort(bound));
			}
			return addresses.join(',');
		},
		reload,
		sessions: (): number | null => listener?.sessions() ?? null,
		close: async (): Promise<void> => await listener?.close(),
	};
}
