import type {Logger} from 'pino';
import {loadBounceRules, readBounceRules} from '../config/bounce-rules.ts';
import {checkDestinations, loadDestinations} from '../config/destinations-file.ts';
import type {LiveSettings, Settings} from '../config/settings.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {Destinations} from '../queue/pace/choose-route.ts';

/** The settings that can change at runtime, and the files that they name. */
export class CurrentSettings {
	readonly #settings: Settings;
	readonly #logger: Pick<Logger, 'error'>;
	#live: LiveSettings;
	#bounceRules: readonly BounceRule[];
	#destinations: Destinations;

	/** Throws if a file is invalid. */
	constructor(settings: Settings, logger: Pick<Logger, 'error'>) {
		this.#settings = settings;
		this.#logger = logger;
		this.#live = settings;
		this.#bounceRules = loadBounceRules(settings);
		this.#destinations = loadDestinations(settings);
	}

	get live(): LiveSettings {
		return this.#live;
	}

	get bounceRules(): readonly BounceRule[] {
		return this.#bounceRules;
	}

	get destinations(): Destinations {
		return this.#destinations;
	}

	set(live: LiveSettings): void {
		this.#live = live;
	}

	/** Reads the bounce rules again. If the file is invalid, keeps the previous rules and returns `false`. */
	renewBounceRules(): boolean {
		const result = readBounceRules(this.#live);
		if (result.ok) {
			this.#bounceRules = result.rules;
		} else {
			const text = 'The previous rules remain in use.';
			this.#logger.error({event: 'bounce_rules_refused', problems: result.problems}, text);
		}
		return result.ok;
	}

	/** Reads the destinations file again. If it is invalid, the previous one remains in use. */
	renewDestinations(): void {
		const result = checkDestinations({...this.#settings, destinationsFile: this.#live.destinationsFile});
		if (result.ok) {
			this.#destinations = result.destinations;
		} else {
			const text = 'The previous destinations remain in use.';
			this.#logger.error({event: 'destinations_refused', problems: result.problems}, text);
		}
	}
}
