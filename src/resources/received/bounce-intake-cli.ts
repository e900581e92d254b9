import {randomBytes} from 'node:crypto';
import {setTimeout} from 'node:timers/promises';
import {CliError} from '../../cli/fault.ts';
import {openResolver, type Session} from '../../cli/session.ts';
import {createLinks} from '../../compose/links/links.ts';
import {loadBounceRules} from '../../config/bounce-rules.ts';
import type {Settings} from '../../config/settings.ts';
import {type Accepted, acceptInbound} from '../../inbound/accept-inbound.ts';
import {askDns} from '../../inbound/dns-answers.ts';
import type {FoundMail} from '../../inbound/mail-files.ts';
import {readEvent} from '../../inbound/providers/read-event.ts';
import {ReadingLoop, recordReading} from '../../inbound/reading.ts';
import {KnownAnswers} from '../../inbound/reports/known-answers.ts';
import {findSigners, isTrustedBySigner} from '../../inbound/reports/read-inbound.ts';
import {readReport} from '../../inbound/reports/read-report.ts';
import {missingAnswers} from '../../inbound/reports/verdicts.ts';
import {systemClocks} from '../../kit/work-limit.ts';
import {createClassify} from '../../mail/classify-reply.ts';
import {precedence, type Reading} from '../../mail/report.ts';
import {createReportWrite} from '../../outcome/reports.ts';
import {bumpGeneration} from '../../store/changes.ts';
import {liveDaemon} from '../../store/data-folder/daemon-file.ts';
import {freeBytes} from '../../store/data-folder/data-dir.ts';
import type {MasterKeys} from '../../store/sealed.ts';
import type {Store} from '../../store/store.ts';
import {hasWorkspace} from '../workspaces/store.ts';
import {countRead, nothingYet} from './ingest-counts-cli.ts';

const batchSize = 128;

/**
 * Stores and reads messages in this process, as the daemon does. `rcptTo` lists the recipients of the messages, if they
 * are known.
 */
export async function startIntake(session: Session, rcptTo: readonly string[]): Promise<Intake> {
	const store = await session.store();
	// A pipe that runs with the settings of another folder would silently lose every message.
	if (!(await hasWorkspace(store.reader))) {
		throw new CliError(
			'config',
			'this store has no workspace, so no report can match a message in it',
			'set MAILCTL_DATA_DIR or MAILCTL_DATABASE_URL to the values that the daemon uses',
		);
	}
	await requireRoom(session.settings());
	return new Intake(session, store, await session.secrets(), rcptTo);
}

/** Stores and reads the messages of an import, and counts the results. */
export class Intake {
	readonly counts = {...nothingYet};
	readonly #session: Session;
	readonly #store: Store;
	readonly #rcptTo: readonly string[];
	readonly #node: string;
	readonly #classify: ReturnType<typeof createClassify>;
	readonly #resolver: ReturnType<typeof openResolver>;
	readonly #reading: ReadingLoop;
	/** Messages that were stored here and not read yet. */
	readonly #unread = new Set<string>();
	/** When the current batch started, on the monotonic clock. */
	#batchStart: number;
	/** The number of events that other processes were notified of. */
	#notifiedEvents = 0;
	#processed = 0;
	#failure: unknown;

	constructor(session: Session, store: Store, keys: MasterKeys, rcptTo: readonly string[]) {
		const {clock, newId} = session.tools;
		this.#session = session;
		this.#store = store;
		this.#rcptTo = rcptTo;
		this.#node = newId('req');
		this.#classify = createClassify(loadBounceRules(session.settings()));
		this.#resolver = openResolver(session);
		this.#batchStart = clock.monotonic();
		this.#reading = this.#createReading(keys);
	}

	async acceptMessage({raw, source, mailFrom, isCut}: FoundMail): Promise<Accepted> {
		const {clock} = this.#session.tools;
		const stored = await acceptInbound(
			{writer: this.#store.writer, node: this.#node, clock},
			{raw, source, mailFrom, rcptTo: this.#rcptTo},
		);
		this.counts.mails++;
		this.counts[stored.isNew ? 'taken' : 'known']++;
		this.counts.cut += isCut ? 1 : 0;
		if (stored.isNew) {
			this.#unread.add(stored.id);
		}
		return stored;
	}

	/**
	 * Must be called after each message. Every `batchSize` messages, it runs `before`, reads what was stored, and lets
	 * other writers work.
	 */
	async drain(before: () => void | Promise<void>): Promise<void> {
		this.#processed++;
		if (this.#processed % batchSize !== 0) {
			return;
		}
		await before();
		await this.#readAll();
		const {databaseUrl, dataDir} = this.#session.settings();
		const {clock} = this.#session.tools;
		// SQLite has one writer at a time, so a running daemon gets the same amount of time.
		if (databaseUrl === null && liveDaemon(dataDir) !== null) {
			await setTimeout(clock.monotonic() - this.#batchStart);
		}
		this.#batchStart = clock.monotonic();
	}

	/** Stops reading. Returns the error because of which some messages were not read, if any. */
	async end(): Promise<unknown> {
		await this.#readAll();
		await this.#reading.stop();
		this.counts.waiting = this.#unread.size;
		return this.#failure;
	}

	/** Reads everything that was stored. */
	async #readAll(): Promise<void> {
		this.#reading.wake();
		await this.#reading.idle();
		if (this.counts.events > this.#notifiedEvents) {
			this.#notifiedEvents = this.counts.events;
			await this.#session.write(bumpGeneration);
		}
	}

	#createReading(keys: MasterKeys): ReadingLoop {
		const settings = this.#session.settings();
		const {clock, newId} = this.#session.tools;
		const recording = {
			reader: this.#store.reader,
			writer: this.#store.writer,
			links: createLinks({keys, publicUrl: '', random: randomBytes}),
			// The daemon checks what is due when it is notified of a change.
			write: createReportWrite({newId, onDue: () => undefined}, {retentionDays: () => settings.retentionDays}),
			reporters: settings.feedbackReporters,
			ownNames: [settings.returnPathDomain, settings.hostname],
			clock,
		};
		return new ReadingLoop({
			store: this.#store,
			node: this.#node,
			isAlone: false,
			lane: {precedence: precedence.proven, perTurn: batchSize, maxRows: batchSize},
			read: async (raw, {source}) =>
				source === 'provider' ? readEvent(raw, this.#classify) : await this.#read(raw),
			record: async (inbound, reading, raw) => {
				const effect = await recordReading(recording, inbound, reading, raw);
				if (this.#unread.delete(inbound.id)) {
					countRead(this.counts, reading, effect);
				}
			},
			clock,
			observer: {
				inboundUnreadable: ({id}) => {
					this.counts.unreadable += this.#unread.delete(id) ? 1 : 0;
				},
				// The message is stored and counted as unreadable.
				inboundUnrecorded: () => undefined,
				storeFailed: error => {
					// The messages are stored, so the next reader of the store reads them.
					this.#failure ??= error;
					void this.#reading.stop();
				},
			},
		});
	}

	/** Reads a message as the daemon does, with its signers, on which the effect of some reports depends. */
	async #read(raw: Buffer): Promise<Reading> {
		const reading = readReport(raw, this.#classify);
		if (!isTrustedBySigner(reading)) {
			return reading;
		}
		const {known: answers, done} = askDns({
			resolver: this.#resolver,
			clock: this.#session.tools.clock,
			missing: async known => missingAnswers(raw, null, new KnownAnswers(known)),
		});
		await done;
		return {...reading, signers: findSigners(raw, reading.kind, answers, systemClocks)};
	}
}

/** Refuses messages if the disk is full, as the daemon's listener does. Exit code 75 makes a mail server retry. */
async function requireRoom({dataDir, databaseUrl, minFreeDisk}: Settings): Promise<void> {
	if (databaseUrl === null && (await freeBytes(dataDir)) < minFreeDisk) {
		throw new CliError(
			'temporary',
			`the disk of ${dataDir} has less free space than MAILCTL_MIN_FREE_DISK`,
			'free some space and try again',
		);
	}
}
