import {setTimeout} from 'node:timers/promises';
import {createSecureContext, rootCertificates, type SecureContext} from 'node:tls';
import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import {Agent, type Dispatcher} from 'undici';
import {extraCa, type Settings} from '../config/settings.ts';
import {inTurn, repeated} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import {readSettingFile} from '../kit/regular-file.ts';
import {dayMs, hourMs, storeTime} from '../kit/time.ts';
import {recordAct} from '../resources/audit/store.ts';
import {type Account, AcmeClient} from '../resources/certificates/acme-client.ts';
import {AcmeError, type AcmeOptions} from '../resources/certificates/acme-connection.ts';
import {challengesFor, overBudget, renewAt, waitAfter} from '../resources/certificates/renewal.ts';
import {
	type AcmeAccount,
	type Certificate,
	type Challenge,
	deleteAccount,
	deleteChallenges,
	type FullCertificate,
	findAccount,
	findCertificate,
	findChallenge,
	insertChallenge,
	listDueCertificates,
	listSealedKeys,
	noteDamage,
	noteDirectory,
	openCertificates,
	putAccount,
	releaseCertificates,
	updateAccountEmail,
	updateCertificate,
} from '../resources/certificates/store.ts';
import {
	challengeCertificate,
	type KeyPair,
	keyOf,
	newKey,
	pemOf,
	readChain,
	renewalId,
} from '../resources/certificates/x509.ts';
import {bumpGeneration} from '../store/changes.ts';
import {WantedNames} from './certificate-names.ts';
import {type Context, toActing} from './context.ts';

const minuteMs = 60_000;
const checkMs = 15_000;
/** How long a node leases a certificate, and how often it extends the lease while it works on it. */
const [leaseMs, extendMs] = [minuteMs, 20_000];
/** The maximum number of concurrent orders besides those for our own names. */
const maxOrders = 4;
const maxContexts = 1000;
const maxOrderMs = 5 * minuteMs;
const challengeMs = 10 * minuteMs;
/** How often to retry sending a changed operator address to the CA. */
const emailMs = hourMs;
/** How often the CA is queried for the renewal time, unless its response says how often to query. */
const defaultRenewalQueryMs = 6 * hourMs;

type Changes = Partial<Omit<FullCertificate, 'name'>>;

type LoadedCertificate = {readonly pair: KeyPair; readonly secret: string};

type CertificatesContext = Pick<Context, 'settings' | 'store' | 'vault' | 'clock' | 'newId' | 'version' | 'observer'>;

/** The certificates that this process's servers present, and the loop that orders them. Several nodes may run it. */
export class Certificates {
	readonly #context: CertificatesContext;
	#dispatcher: Dispatcher | null = null;
	readonly #names: WantedNames;
	#certificates: ReadonlyMap<string, LoadedCertificate> = new Map();
	/** The contexts of names that were requested. Creating one takes a millisecond and 70 kB. */
	readonly #contexts = new LRUCache<string, SecureContext>(atMost(maxContexts));
	readonly #listeners: Array<() => void> = [];
	readonly #stopping = new AbortController();
	/** The number of orders in progress. */
	#orders = 0;
	#rounds: ReadonlyArray<ReturnType<typeof repeated>> = [];
	#emailRound: ReturnType<typeof repeated> | null = null;
	readonly #pause: AcmeOptions['pause'];
	readonly #readInTurn = inTurn();
	readonly #accountInTurn = inTurn();

	constructor(context: CertificatesContext, pause: AcmeOptions['pause'] = defaultPause) {
		this.#pause = pause;
		this.#context = context;
		this.#names = new WantedNames(context);
	}

	/** Returns the certificate for an SNI name, else that of MAILCTL_HOSTNAME, if there is one. */
	contextFor(servername: string): SecureContext | undefined {
		const requestedName = servername.toLowerCase();
		const name = this.#certificates.has(requestedName) ? requestedName : this.#context.settings.hostname;
		const pair = this.#certificates.get(name)?.pair;
		try {
			const context = this.#contexts.get(name) ?? (pair && createSecureContext(pair));
			this.#contexts.set(name, context);
			return context;
		} catch (error) {
			this.#context.observer.storeFailed(error);
			return undefined;
		}
	}

	/** Whether a CA may connect to validate a name by TLS (RFC 8737), for an order of this node or another one. */
	async isProving(): Promise<boolean> {
		return this.#context.store.dialect.isShared ? (await this.#challenge({})) !== undefined : this.#orders > 0;
	}

	/** Returns the certificate that proves control of a name, if an order requires it. */
	async proofFor(name: string): Promise<SecureContext | undefined> {
		const challenge = await this.#challenge({type: 'tls-alpn-01', name: name.toLowerCase()});
		return challenge && createSecureContext(challengeCertificate(challenge.name, challenge.key_authorization));
	}

	/** Returns the text that proves control of a name by HTTP (RFC 8555 §8.3), if an order has this token. */
	async textFor(token: string): Promise<string | undefined> {
		return (await this.#challenge({type: 'http-01', token}))?.key_authorization;
	}

	async #challenge(criteria: Partial<Challenge>): Promise<Challenge | undefined> {
		const {store, clock} = this.#context;
		return await findChallenge(store.reader, criteria, storeTime(clock.now()));
	}

	has(name: string): boolean {
		return this.#certificates.has(name);
	}

	/** Returns the certificate of MAILCTL_HOSTNAME, or `null` if there is none yet. */
	own(): KeyPair | null {
		return this.#certificates.get(this.#context.settings.hostname)?.pair ?? null;
	}

	/** Registers a listener for changes of the certificate of MAILCTL_HOSTNAME. */
	onChange(listener: () => void): void {
		this.#listeners.push(listener);
	}

	/** Reads the existing certificates before anything listens. */
	async open(): Promise<void> {
		const {settings, store, clock} = this.#context;
		if (settings.acme) {
			// A single daemon resumes an order during which it was stopped.
			await (store.dialect.isShared ? undefined : this.#write(releaseCertificates));
			await this.#write(trx => noteDirectory(trx, settings.acmeDirectory, storeTime(clock.now())));
			await this.#readInTurn(() => this.#read());
		}
	}

	/** Starts ordering. From now on, the listeners must answer challenges. */
	start(): void {
		if (this.#context.settings.acme) {
			// Orders run concurrently: a slow one delays neither our own names nor those of other workspaces.
			this.#rounds = [true, ...Array<boolean>(maxOrders).fill(false)].map(isOwn =>
				repeated(checkMs, () => this.renewDue(isOwn), this.#context.observer.storeFailed),
			);
			this.#runAgain();
			this.#emailRound = repeated(emailMs, () => this.#updateEmail(), this.#context.observer.storeFailed);
			void this.#emailRound.now();
		}
	}

	/** Call this when another process has changed certificates, domains or what is due. */
	forget(): void {
		if (this.#context.settings.acme) {
			this.#readInTurn(() => this.#read()).catch(this.#context.observer.storeFailed);
			this.#runAgain();
		}
	}

	#runAgain(): void {
		for (const round of this.#rounds) {
			void round.again();
		}
	}

	/** Abandons the current orders. The next start or another node repeats them. */
	async stop(): Promise<void> {
		this.#stopping.abort();
		this.#names.stop();
		await this.#dispatcher?.destroy();
		await Promise.all([...this.#rounds, this.#emailRound].map(round => round?.stop()));
		await this.#readInTurn(async () => undefined);
	}

	/**
	 * Works on what is due, one certificate at a time. `isOwn` means only our own names. An order may take minutes, so
	 * what is due is read again before each one.
	 */
	async renewDue(isOwn = false): Promise<void> {
		for (;;) {
			await this.#names.refresh();
			const row = await this.#nextDue(isOwn);
			if (row === undefined || this.#stopping.signal.aborted) {
				return;
			}
			await this.#process(row);
		}
	}

	/** Returns our own names first, then those with the fewest failures. */
	async #nextDue(isOwn: boolean): Promise<Certificate | undefined> {
		const {store, clock} = this.#context;
		const all = await listDueCertificates(store.reader, storeTime(clock.now()));
		const due = all.filter(({name, unused}) => unused !== overBudget && this.#names.isWanted(name));
		return due.find(({name}) => this.#names.own.includes(name)) ?? (isOwn ? undefined : due[0]);
	}

	/** Decrypts the certificates that have changed. */
	async #read(): Promise<void> {
		const {store, vault, clock, observer} = this.#context;
		const before = this.#certificates;
		const stored = await listSealedKeys(store.reader);
		const changed = stored.filter(({name, secret}) => before.get(name)?.secret !== secret);
		const damaged: string[] = [];
		const opened = await openCertificates(
			store.reader,
			vault,
			changed.map(({name}) => name),
			(error, name) => {
				observer.storeFailed(error);
				damaged.push(name);
			},
		);
		if (damaged.length > 0) {
			await this.#write(trx => noteDamage(trx, damaged, storeTime(clock.now())));
		}
		const changedNames = new Set(changed.map(({name}) => name));
		const unchanged = stored.flatMap(({name}) =>
			changedNames.has(name) ? [] : [[name, before.get(name) as LoadedCertificate] as const],
		);
		const renewed = opened.map(({name, chain: cert, key, secret}) => [name, {pair: {cert, key}, secret}] as const);
		this.#certificates = new Map([...unchanged, ...renewed]);
		for (const name of changedNames) {
			this.#contexts.delete(name);
		}
		if (changedNames.has(this.#context.settings.hostname) && this.own() !== null) {
			for (const listener of this.#listeners) {
				listener();
			}
		}
	}

	/** Works on a certificate that no other node is working on. */
	async #process({name, taken_until: previousLease, next_try_at}: Certificate): Promise<void> {
		const {store, clock, observer} = this.#context;
		let lease = previousLease;
		const extendLease = async (read: {readonly next_try_at?: string} = {}) => {
			const next = {taken_until: storeTime(clock.now() + leaseMs)};
			const isOurs = await this.#write(trx => updateCertificate(trx, {name, taken_until: lease, ...read}, next));
			lease = isOurs ? next.taken_until : lease;
			return isOurs;
		};
		const row = (await extendLease({next_try_at})) ? await findCertificate(store.reader, name) : undefined;
		if (row === undefined) {
			return;
		}
		const lost = new AbortController();
		const extending = repeated(
			extendMs,
			async () => void ((await extendLease()) || lost.abort()),
			observer.storeFailed,
		);
		const signal = AbortSignal.any([this.#stopping.signal, lost.signal, AbortSignal.timeout(maxOrderMs)]);
		const changes = await this.#renew(row, signal).finally(() => extending.stop());
		const {chain, fault, not_after = row.not_after, issuer} = changes;
		const isSaved = await this.#write(async trx => {
			// An operator or another node may have made it due meanwhile. Only a new certificate satisfies that.
			const isSame = chain || (await findCertificate(trx, name))?.next_try_at === row.next_try_at;
			const applied = isSame ? changes : {};
			const isOurs = await updateCertificate(trx, {name, taken_until: lease}, {...applied, taken_until: null});
			if (isOurs && chain) {
				const act = {
					action: 'certificate.issued',
					workspaceId: null,
					target: name,
					detail: {not_after, issuer},
				};
				await recordAct(trx, toActing(this.#context), act);
				await bumpGeneration(trx);
			}
			return isOurs;
		});
		if (isSaved && chain) {
			// The certificate is in use before the line is logged.
			await this.#readInTurn(() => this.#read()).catch(observer.storeFailed);
			observer.logger.info({event: 'certificate_issued', name, not_after, issuer});
		} else if (isSaved && fault) {
			const level = not_after !== null && not_after <= storeTime(clock.now()) ? 'error' : 'warn';
			observer.logger[level](
				{event: 'certificate_failed', name, not_after, next_try_at: changes.next_try_at},
				fault,
			);
		}
	}

	#client(): AcmeClient {
		const {settings, clock, version} = this.#context;
		this.#dispatcher ??= createDispatcher(settings);
		return new AcmeClient({
			directory: settings.acmeDirectory,
			dispatcher: this.#dispatcher,
			userAgent: `mailctl/${version}`,
			now: clock.now,
			pause: this.#pause,
		});
	}

	/** Orders a certificate if it is due; otherwise queries the CA for the renewal time. */
	async #renew(row: FullCertificate, signal: AbortSignal): Promise<Changes> {
		const {settings, clock} = this.#context;
		const client = this.#client();
		const id = row.chain && renewalId(row.chain);
		const now = () => clock.now();
		const isDue = (certificate: FullCertificate) => (renewAt(certificate) ?? 0) <= now();
		if (row.chain !== null && !isDue(row)) {
			const {retryAfterMs, ...window} = await readWindow(client, id, signal);
			if (!isDue({...row, ...window})) {
				return {...window, next_try_at: nextCheckAt({...row, ...window}, retryAfterMs, now())};
			}
		}
		try {
			return await this.#order(client, row, signal);
		} catch (error) {
			if (this.#stopping.signal.aborted) {
				return {};
			}
			if (!(error instanceof AcmeError || signal.aborted)) {
				throw error;
			}
			const {retryAfterMs} = error instanceof AcmeError ? error : new AcmeError('');
			const timeout = `the order was not completed within ${maxOrderMs / minuteMs} minutes`;
			const attempts = row.tries + 1;
			const requestedMs = Math.min(retryAfterMs ?? 0, maxPause(row, now()));
			const next = now() + Math.max(waitAfter(attempts), requestedMs);
			return {
				fault: signal.aborted ? timeout : (error as Error).message,
				tries: attempts,
				tried_directory: settings.acmeDirectory,
				next_try_at: storeTime(next),
				updated_at: storeTime(now()),
			};
		}
	}

	/** Orders a certificate. If the CA has closed the account, it is replaced once. */
	async #order(client: AcmeClient, row: FullCertificate, signal: AbortSignal): Promise<Changes> {
		const directory = this.#context.settings.acmeDirectory;
		for (let isRetry = false; ; isRetry = true) {
			const account = await this.#accountInTurn(() => this.#account(client, signal));
			try {
				return await this.#orderAs(account, client, row, signal);
			} catch (error) {
				if (isRetry || !(error instanceof AcmeError) || !(await client.isClosed(account, error, signal))) {
					throw error;
				}
				await this.#write(trx => deleteAccount(trx, {directory, url: account.url}));
			}
		}
	}

	async #orderAs(account: Account, client: AcmeClient, row: FullCertificate, signal: AbortSignal): Promise<Changes> {
		const {settings, vault, clock} = this.#context;
		const {httpListen, httpRedirectListen, httpsListen, acmeDirectory: directory} = settings;
		const {name, tries} = row;
		const key = newKey();
		const tokens: string[] = [];
		// The local ports may differ from those to which a CA connects.
		const served = {
			isHttpServed: httpListen.port === 80 || httpRedirectListen !== null,
			isHttpsServed: httpsListen !== null,
		};
		const isOfAnother = row.directory !== null && row.directory !== directory;
		this.#orders++;
		try {
			const chain = await client.order(account, {
				name,
				key,
				signal,
				types: challengesFor(tries, served),
				replaces: row.chain === null || isOfAnother ? null : renewalId(row.chain),
				show: async challenge => {
					const now = clock.now();
					tokens.push(challenge.token);
					const expires_at = storeTime(now + challengeMs);
					await this.#write(trx => insertChallenge(trx, {...challenge, expires_at}, storeTime(now)));
				},
			});
			const issued = readChain(chain, key, name, clock.now());
			if (typeof issued === 'string') {
				throw new AcmeError(issued);
			}
			const {retryAfterMs, ...window} = await readWindow(client, renewalId(issued.chain), signal);
			const next = {...issued, window_start: null, window_end: null, ...window};
			const now = clock.now();
			const check = nextCheckAt({...row, ...next}, retryAfterMs, now);
			// A CA may want even a new certificate renewed at once, which must not become an endless loop.
			const earliest = storeTime(now + Math.min(hourMs, (Date.parse(issued.not_after) - now) / 4));
			return {
				...next,
				directory,
				tried_directory: directory,
				secret: vault.seal(name, pemOf(key)),
				tries: 0,
				fault: null,
				updated_at: storeTime(now),
				next_try_at: check > earliest ? check : earliest,
			};
		} finally {
			this.#orders--;
			await this.#write(trx => deleteChallenges(trx, tokens));
		}
	}

	/** Returns our account at the CA; creates it if necessary. */
	async #account(client: AcmeClient, signal: AbortSignal): Promise<Account> {
		const {settings, store, vault, clock} = this.#context;
		const {acmeDirectory: directory, acmeEmail: email, acmeEab: binding} = settings;
		const stored = await findAccount(store.reader, directory);
		const account = stored && this.#openAccount(stored);
		if (account) {
			return account;
		}
		const key = newKey();
		const url = await client.register(key, {email, binding}, signal);
		const secret = vault.seal(directory, pemOf(key));
		const newAccount = {directory, url, secret, email, created_at: storeTime(clock.now())};
		const current = await this.#write(trx => putAccount(trx, newAccount, stored?.url));
		return this.#openAccount(current) ?? {key, url};
	}

	/** Returns `null` if the account's key is damaged. A new account can replace it. */
	#openAccount({directory, secret, url}: AcmeAccount): Account | null {
		try {
			return {key: keyOf(this.#context.vault.open(directory, secret)), url};
		} catch {
			return null;
		}
	}

	/** Sends a changed MAILCTL_ACME_EMAIL to the CA, because the next order may be weeks away. */
	async #updateEmail(): Promise<void> {
		const {settings, store, observer} = this.#context;
		const {acmeDirectory: directory, acmeEmail: email} = settings;
		const stored = await findAccount(store.reader, directory);
		const account = stored && stored.email !== email && this.#openAccount(stored);
		if (!account) {
			return;
		}
		const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(maxOrderMs)]);
		const client = this.#client();
		try {
			await client.updateContact(account, email, signal);
			await this.#write(trx => updateAccountEmail(trx, {directory, url: account.url}, email));
		} catch (error) {
			if (this.#stopping.signal.aborted) {
				return;
			}
			if (!(error instanceof AcmeError || signal.aborted)) {
				throw error;
			}
			if (error instanceof AcmeError && (await client.isClosed(account, error, signal))) {
				// The next order creates another account with this address.
				await this.#write(trx => deleteAccount(trx, {directory, url: account.url}));
				return;
			}
			const {message} = error as Error;
			const text = `MAILCTL_ACME_EMAIL could not be updated at the CA; retrying in an hour: ${message}`;
			observer.logger.warn({event: 'acme_email_failed'}, text);
		}
	}

	#write<Result>(work: (trx: Knex.Transaction) => Promise<Result>): Promise<Result> {
		return this.#context.store.writer.transaction(work);
	}
}

const defaultPause: AcmeOptions['pause'] = (ms, signal) => setTimeout(ms, undefined, {signal});

/** Queries the CA for the renewal time. If it does not respond, it is queried again later. */
async function readWindow(client: AcmeClient, id: string | null, signal: AbortSignal) {
	const window = id === null ? null : await client.renewalWindow(id, signal).catch(() => null);
	const changes = window && {window_start: storeTime(window.start), window_end: storeTime(window.end)};
	return {...changes, retryAfterMs: window?.retryAfterMs ?? null};
}

/** The longest wait, whatever the CA requests: the certificate must not expire meanwhile. */
function maxPause({not_after}: FullCertificate, now: number): number {
	return not_after === null ? 7 * dayMs : Math.max((Date.parse(not_after) - now) / 4, hourMs);
}

/** Returns when to check a certificate next: when its renewal is due or the CA may be queried again. */
function nextCheckAt(row: Parameters<typeof renewAt>[0], retryAfterMs: number | null, now: number): string {
	const queryMs = Math.min(Math.max(retryAfterMs ?? defaultRenewalQueryMs, minuteMs), dayMs);
	return storeTime(Math.min(renewAt(row) ?? now, now + queryMs));
}

/**
 * Creates the HTTP client for the CA. Each request uses a new connection, because the CA may close an idle one just as
 * a request is sent. They share one TLS context: reading all public certificates takes tens of milliseconds.
 */
function createDispatcher(settings: Settings): Dispatcher {
	const ca = settings.acmeCaFile === null ? [] : [readSettingFile(settings.acmeCaFile).toString()];
	return new Agent({
		pipelining: 0,
		connect: {secureContext: createSecureContext({ca: [...rootCertificates, extraCa(settings) ?? [], ca].flat()})},
	});
}
