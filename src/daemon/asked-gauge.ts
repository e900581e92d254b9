import {Gauge, type Registry} from 'prom-client';

export type AskedGauge = {
	readonly name: string;
	readonly help: string;
	/** Asked at each scrape. Without an answer, or where it fails, the gauge is left out. */
	readonly ask: () => number | null | Promise<number | null>;
};

/** A gauge that may have no value. */
export function registerAsked(registers: Registry[], {name, help, ask}: AskedGauge): void {
	new Gauge({
		name,
		help,
		registers,
		async collect() {
			this.remove();
			const value = await Promise.resolve(ask()).catch(() => null);
			if (value !== null) {
				this.set(value);
			}
		},
	});
}
