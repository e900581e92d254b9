/** A foreign server between us and the last host of a domain. */
export type RelayOptions = {
	readonly hostname: string;
	/** It takes all mail for this domain, and hands it to the port of 127.0.0.1. */
	readonly domain: string;
	readonly lastPort: number;
	/** Its reports to this domain go to our listener. */
	readonly returnPathDomain: string;
	readonly inboundPort: number;
	/** Whether it offers DSN: without it senders are told of delays too. */
	readonly dsn: boolean;
};

export type Relaying = {
	/** On 127.0.0.1. */
	readonly port: number;
	readonly log: () => Promise<string>;
};

/** Seconds until it tells of a delay, and until it gives up. */
export const warnAfter = 1;
export const giveUpAfter = 12;
