import type {AnyWrite, Writer} from './writer.ts';

/** A writer elsewhere that knows some writes by their names. */
export type OtherWriter = {
	/** Whether what is submitted now goes there. */
	readonly makes: (write: AnyWrite) => boolean;
	readonly submit: (name: string, item: unknown) => Promise<unknown>;
};

type Place = 'own' | 'other';
/** Something to be written; `run` never rejects. */
type Step = {readonly place: Place; readonly run: () => Promise<void>};

/**
 * Makes one writer of two, which take turns by the order in which things are submitted: a turn ends when something for the
 * other writer is next, and that begins when all of the turn has ended. What comes in one turn shares transactions.
 */
export function takeTurns(own: Writer, other: OtherWriter): Writer {
	let turn: Place = 'own';
	let running = 0;
	let waiting: Step[] = [];
	let onIdle: Array<() => void> = [];

	function add<Result>(place: Place, work: () => Promise<Result>): Promise<Result> {
		return new Promise((resolve, reject) => {
			const step: Step = {place, run: () => work().then(resolve, reject)};
			if (waiting.length === 0 && (running === 0 || place === turn)) {
				start(step);
			} else {
				waiting.push(step);
			}
		});
	}

	function start({place, run}: Step): void {
		turn = place;
		running++;
		void run().then(() => {
			running--;
			if (running === 0) {
				next();
			}
		});
	}

	function next(): void {
		const end = waiting.findIndex(({place}) => place !== waiting[0]?.place);
		const steps = end === -1 ? waiting : waiting.slice(0, end);
		waiting = waiting.slice(steps.length);
		for (const step of steps) {
			start(step);
		}
		if (running === 0) {
			for (const resolve of onIdle) {
				resolve();
			}
			onIdle = [];
		}
	}

	return {
		isOrdered: true,
		submit: <Item, Result>(write: AnyWrite, item: Item) =>
			other.makes(write)
				? add('other', () => other.submit(write.name, item) as Promise<Result>)
				: add('own', () => own.submit<Item, Result>(write, item)),
		transaction: work => add('own', () => own.transaction(work)),
		async idle() {
			while (running > 0) {
				await new Promise<void>(resolve => onIdle.push(resolve));
			}
		},
	};
}
