//! The synthesis of every kind: a planned event in, its samples out, with a peak of 1.
//!
//! Each is a small model of what makes the sound: strokes that ring, breath or friction as filtered noise, voices as
//! tones with overtones under an envelope. What the plan leaves open (formants, exact timbre, grain) is drawn, so that
//! two events of one plan differ.

use hark_work::random::Random;

use super::kind::Sound;
use super::scene::{Sounding, between};
use super::signal::{
    add, band_pass, drift, high_pass, hill, low_pass, noise, pluck, ringing, shape, to_full_scale, voice,
};

/// One event's own material.
struct Maker<'a> {
    rate: f64,
    /// Samples of the event.
    length: usize,
    event: &'a Sounding,
    random: Random,
}

/// The samples of an event.
pub(super) fn render(sound: Sound, event: &Sounding, rate: u32, random: Random) -> Vec<f64> {
    let rate = f64::from(rate);
    let length = ((event.end - event.start) * rate).round().max(1.0) as usize;
    let mut maker = Maker {
        rate,
        length,
        event,
        random,
    };
    let mut samples = match sound {
        Sound::Rain => maker.rain(),
        Sound::Bell => maker.bell(),
        Sound::Engine => maker.engine(),
        Sound::Bark => maker.bark(),
        Sound::Siren => maker.siren(),
        Sound::Clock => maker.clock(),
        Sound::Footsteps => maker.footsteps(),
        Sound::Birds => maker.birds(),
        Sound::Wind => maker.wind(),
        Sound::Thunder => maker.thunder(),
        Sound::Drip => maker.drip(),
        Sound::Phone => maker.phone(),
        Sound::Knock => maker.knock(),
        Sound::Drum => maker.drum(),
        Sound::Whistle => maker.whistle(),
        Sound::Cricket => maker.cricket(),
        Sound::Drill => maker.drill(),
        Sound::Applause => maker.applause(),
        Sound::Frog => maker.frog(),
        Sound::Horn => maker.horn(),
        Sound::Typing => maker.typing(),
        Sound::Waves => maker.waves(),
        Sound::Cat => maker.cat(),
        Sound::Fire => maker.fire(),
        Sound::Helicopter => maker.helicopter(),
    };
    let seconds = length as f64 / rate;
    shape(&mut samples, rate, |time| hill(time, seconds, 0.004));
    to_full_scale(&mut samples);
    samples
}

impl Maker<'_> {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        between(&mut self.random, (low, high))
    }

    fn seconds(&self) -> f64 {
        self.length as f64 / self.rate
    }

    fn samples(&self, seconds: f64) -> usize {
        ((seconds * self.rate).round() as usize).max(1)
    }

    fn noise(&mut self, seconds: f64) -> Vec<f64> {
        noise(self.samples(seconds), &mut self.random)
    }

    /// A stroke of noise within a band, dying away.
    fn burst(&mut self, seconds: f64, frequency: f64, sharpness: f64, decay: f64) -> Vec<f64> {
        let mut piece = self.noise(seconds);
        band_pass(&mut piece, self.rate, frequency, sharpness);
        shape(&mut piece, self.rate, |time| pluck(time, 0.001, decay));
        to_full_scale(&mut piece);
        piece
    }

    /// The same small sound at every stroke of the plan, made anew each time.
    fn at_strikes(
        &mut self,
        varied: (f64, f64),
        mut make: impl FnMut(&mut Self, f64) -> Vec<f64>,
    ) -> Vec<f64> {
        let mut out = vec![0.0; self.length];
        let (strikes, unit) = (self.event.strikes.clone(), self.event.unit);
        for start in strikes {
            let piece = make(self, unit);
            let gain = self.between(varied.0, varied.1);
            add(&mut out, self.rate, start, &piece, gain);
        }
        out
    }

    /// Single short sounds at random times, so many a second.
    fn scattered(&mut self, per_second: f64, mut make: impl FnMut(&mut Self) -> Vec<f64>) -> Vec<f64> {
        let mut out = vec![0.0; self.length];
        let number = (per_second * self.seconds()).ceil() as usize;
        for _ in 0..number {
            let start = self.random.unit() * self.seconds();
            let piece = make(self);
            let gain = self.between(0.3, 1.0);
            add(&mut out, self.rate, start, &piece, gain);
        }
        out
    }

    /// A hiss of many drops, and some drops of their own.
    fn rain(&mut self) -> Vec<f64> {
        let mut hiss = self.noise(self.seconds());
        let edge = self.between(1500.0, 2500.0);
        high_pass(&mut hiss, self.rate, edge);
        let drops = self.scattered(60.0, |maker| {
            let frequency = maker.between(3000.0, 8000.0);
            maker.burst(0.01, frequency, 2.0, 0.002)
        });
        let rate = self.rate;
        add(&mut hiss, rate, 0.0, &drops, 0.9);
        hiss
    }

    /// Partials of a struck bell, which are no multiples of one another.
    fn bell(&mut self) -> Vec<f64> {
        let tone = 700.0 * self.event.pitch;
        let decay = self.between(0.25, 0.4);
        let colour = self.between(0.8, 1.2);
        let length = self.length;
        let rate = self.rate;
        self.at_strikes((0.8, 1.0), |maker, unit| {
            let partials = [
                (0.5, 0.5, 1.3),
                (1.0, 1.0, 1.0),
                (1.19, 0.6, 0.8),
                (1.5, 0.4, 0.7),
                (2.0, 0.7, 0.6),
                (2.74, 0.5, 0.4),
                (4.1, 0.3, 0.25),
            ]
            .map(|(ratio, strength, lasting)| (tone * ratio, strength, decay * lasting * colour));
            // A bell is not damped by its next stroke; the event's end stops it.
            let ring = maker.samples(unit * 1.5).min(length);
            let mut piece = ringing(ring, rate, &partials);
            let ring = ring as f64 / rate;
            shape(&mut piece, rate, |time| {
                hill(time, ring, 0.03).max(f64::from(u8::from(time < 0.1)))
            });
            piece
        })
    }

    /// Firing strokes with many overtones, and the noise of the exhaust in their rhythm.
    fn engine(&mut self) -> Vec<f64> {
        let tone = 42.0 * self.event.pitch;
        let strengths: Vec<f64> = (1..=30_u32)
            .map(|number| self.between(0.4, 1.0) / f64::from(number).powf(0.8))
            .collect();
        let seconds = self.seconds();
        let unsteady = drift(seconds, 6.0, &mut self.random);
        let mut out = voice(self.length, self.rate, &strengths, |at| {
            tone * (0.97 + 0.06 * unsteady(at * seconds))
        });
        let mut exhaust = self.noise(seconds);
        low_pass(&mut exhaust, self.rate, 500.0 * self.event.pitch);
        shape(&mut exhaust, self.rate, |time| {
            (std::f64::consts::PI * tone * time).sin().powi(2)
        });
        add(&mut out, self.rate, 0.0, &exhaust, 1.2);
        low_pass(&mut out, self.rate, 900.0 * self.event.pitch);
        out
    }

    /// A rough voice that jumps up and falls, with a formant.
    fn bark(&mut self) -> Vec<f64> {
        let tone = 420.0 * self.event.pitch;
        let formant = self.between(1.8, 2.4) * tone;
        self.at_strikes((0.75, 1.0), |maker, unit| {
            let length = maker.samples(unit);
            let strengths = [0.6, 1.0, 0.9, 0.6, 0.4, 0.3, 0.2, 0.15];
            let bend = maker.between(0.25, 0.4);
            let mut piece = voice(length, maker.rate, &strengths, |at| {
                tone * (0.8 + bend * (std::f64::consts::PI * at.powf(0.6)).sin())
            });
            let mut breath = maker.noise(unit);
            band_pass(&mut breath, maker.rate, formant, 1.0);
            add(&mut piece, maker.rate, 0.0, &breath, 2.0);
            shape(&mut piece, maker.rate, |time| {
                hill(time, unit, 0.3 * unit).powf(0.7)
            });
            piece
        })
    }

    /// A tone that rises and falls without end.
    fn siren(&mut self) -> Vec<f64> {
        let period = match self.event.strikes.as_slice() {
            [first, second, ..] => second - first,
            _ => 1.6,
        };
        let (low, width) = (self.between(550.0, 650.0), self.between(650.0, 850.0));
        let (seconds, phase) = (self.seconds(), self.random.unit());
        voice(self.length, self.rate, &[1.0, 0.5, 0.45, 0.2, 0.15], |at| {
            let turn = std::f64::consts::TAU * (at * seconds / period + phase);
            low + width * (0.5 - 0.5 * turn.cos())
        })
    }

    /// Dry clicks, alternately higher and lower.
    fn clock(&mut self) -> Vec<f64> {
        let tone = self.between(2600.0, 3400.0);
        let mut tick = false;
        self.at_strikes((0.85, 1.0), |maker, unit| {
            tick = !tick;
            let tone = if tick { tone } else { tone * 0.78 };
            let partials = [
                (tone, 1.0, 0.006),
                (tone * 1.9, 0.6, 0.004),
                (tone * 0.45, 0.3, 0.008),
            ];
            let mut piece = ringing(maker.samples(unit), maker.rate, &partials);
            let click = maker.burst(0.006, 5000.0, 0.7, 0.001);
            add(&mut piece, maker.rate, 0.0, &click, 0.7);
            piece
        })
    }

    /// A dull thump of the heel and a scrape of the sole.
    fn footsteps(&mut self) -> Vec<f64> {
        let floor = self.between(90.0, 150.0);
        self.at_strikes((0.7, 1.0), |maker, unit| {
            let mut piece = maker.burst(unit, floor, 1.5, 0.03);
            let mut scrape = maker.noise(unit);
            band_pass(&mut scrape, maker.rate, 900.0, 0.8);
            shape(&mut scrape, maker.rate, |time| hill(time, unit, 0.4 * unit));
            add(&mut piece, maker.rate, 0.0, &scrape, 0.25);
            piece
        })
    }

    /// Short gliding whistles, high, each with a shape of its own.
    fn birds(&mut self) -> Vec<f64> {
        let home = self.between(3600.0, 4800.0);
        self.at_strikes((0.6, 1.0), |maker, unit| {
            let start = home * maker.between(0.85, 1.15);
            let glide = maker.between(-0.35, 0.45);
            let warble = maker.between(0.0, 0.08);
            let mut piece = voice(maker.samples(unit), maker.rate, &[1.0, 0.12], |at| {
                start * (1.0 + glide * at + warble * (50.0 * at).sin())
            });
            shape(&mut piece, maker.rate, |time| hill(time, unit, 0.3 * unit));
            piece
        })
    }

    /// Noise in a band that wanders, in gusts.
    fn wind(&mut self) -> Vec<f64> {
        let seconds = self.seconds();
        let middle = self.between(280.0, 420.0);
        let mut low = self.noise(seconds);
        let mut high = low.clone();
        band_pass(&mut low, self.rate, middle, 2.5);
        band_pass(&mut high, self.rate, middle * 1.9, 3.0);
        let gusts = drift(seconds, 2.0, &mut self.random);
        shape(&mut low, self.rate, |time| 0.35 + 0.65 * gusts(time));
        shape(&mut high, self.rate, |time| gusts(time).powi(2));
        add(&mut low, self.rate, 0.0, &high, 0.9);
        low
    }

    /// A crack and a long roll of very low noise.
    fn thunder(&mut self) -> Vec<f64> {
        let seconds = self.seconds();
        let mut roll = self.noise(seconds);
        let edge = self.between(70.0, 110.0);
        low_pass(&mut roll, self.rate, edge);
        low_pass(&mut roll, self.rate, edge * 1.5);
        let bumps = drift(seconds, 7.0, &mut self.random);
        shape(&mut roll, self.rate, |time| {
            (0.2 + bumps(time)) * pluck(time, 0.03, 0.6 * seconds)
        });
        to_full_scale(&mut roll);
        let mut crack = self.noise(seconds.min(0.5));
        low_pass(&mut crack, self.rate, 700.0);
        let duration = seconds;
        shape(&mut crack, self.rate, |time| {
            pluck(time, 0.01, 0.1 * duration.min(1.0))
        });
        to_full_scale(&mut crack);
        add(&mut roll, self.rate, 0.0, &crack, 0.35);
        roll
    }

    /// A bubble: a tone that rises while it dies away.
    fn drip(&mut self) -> Vec<f64> {
        let home = self.between(900.0, 1300.0);
        self.at_strikes((0.5, 1.0), |maker, unit| {
            let start = home * maker.between(0.85, 1.15);
            let rise = maker.between(0.7, 1.2);
            let mut piece = voice(maker.samples(unit), maker.rate, &[1.0], |at| {
                start * (1.0 + rise * at * at)
            });
            shape(&mut piece, maker.rate, |time| pluck(time, 0.002, 0.25 * unit));
            piece
        })
    }

    /// Two small bells that a hammer strikes twenty times a second.
    fn phone(&mut self) -> Vec<f64> {
        let tone = self.between(1250.0, 1450.0);
        let strokes = self.between(18.0, 23.0);
        self.at_strikes((0.95, 1.0), |maker, unit| {
            let length = maker.samples(unit);
            let mut piece = voice(length, maker.rate, &[1.0, 0.0, 0.35], |_| tone);
            let second = voice(length, maker.rate, &[1.0, 0.0, 0.25], |_| tone * 1.27);
            add(&mut piece, maker.rate, 0.0, &second, 0.9);
            shape(&mut piece, maker.rate, |time| {
                let within = (time * strokes).fract() / strokes;
                (0.15 + 0.85 * (-within / 0.018).exp()) * hill(time, unit, 0.015)
            });
            piece
        })
    }

    /// A panel of wood that is hit: a few damped modes and the hit itself.
    fn knock(&mut self) -> Vec<f64> {
        let panel = self.between(380.0, 520.0);
        self.at_strikes((0.8, 1.0), |maker, unit| {
            let partials = [
                (panel, 1.0, 0.022),
                (panel * 1.62, 0.7, 0.016),
                (panel * 2.4, 0.5, 0.012),
                (panel * 3.7, 0.25, 0.008),
            ];
            let mut piece = ringing(maker.samples(unit), maker.rate, &partials);
            let hit = maker.burst(0.01, 1800.0, 0.8, 0.002);
            add(&mut piece, maker.rate, 0.0, &hit, 0.5);
            piece
        })
    }

    /// A skin whose tone falls as it swings out.
    fn drum(&mut self) -> Vec<f64> {
        let tone = self.between(58.0, 72.0);
        self.at_strikes((0.85, 1.0), |maker, unit| {
            let mut piece = voice(maker.samples(unit), maker.rate, &[1.0, 0.25], |at| {
                tone * (1.0 + 1.4 * (-at * 12.0).exp())
            });
            shape(&mut piece, maker.rate, |time| pluck(time, 0.003, 0.35 * unit));
            let stick = maker.burst(0.015, 2600.0, 0.6, 0.003);
            add(&mut piece, maker.rate, 0.0, &stick, 0.3);
            piece
        })
    }

    /// One nearly pure tone with a slight tremble and some breath.
    fn whistle(&mut self) -> Vec<f64> {
        let tone = 1700.0 * self.event.pitch;
        let bend = self.between(-0.12, 0.18);
        self.at_strikes((0.85, 1.0), |maker, unit| {
            let mut piece = voice(maker.samples(unit), maker.rate, &[1.0, 0.04], |at| {
                tone * (1.0 + bend * at + 0.008 * (std::f64::consts::TAU * 5.5 * at * unit).sin())
            });
            let mut breath = maker.noise(unit);
            band_pass(&mut breath, maker.rate, tone, 3.0);
            add(&mut piece, maker.rate, 0.0, &breath, 0.15);
            shape(&mut piece, maker.rate, |time| hill(time, unit, 0.05));
            piece
        })
    }

    /// Chirps of a few pulses of one very high tone.
    fn cricket(&mut self) -> Vec<f64> {
        let tone = self.between(4600.0, 5400.0);
        let pulses = self.between(26.0, 32.0);
        self.at_strikes((0.85, 1.0), |maker, unit| {
            let mut piece = voice(maker.samples(unit), maker.rate, &[1.0, 0.1], |_| tone);
            shape(&mut piece, maker.rate, |time| {
                let pulse = (std::f64::consts::PI * pulses * time).sin().powi(2);
                pulse * hill(time, unit, 0.02)
            });
            piece
        })
    }

    /// A buzz full of overtones under load, and the grinding of the bit.
    fn drill(&mut self) -> Vec<f64> {
        let tone = 190.0 * self.event.pitch;
        let seconds = self.seconds();
        let load = drift(seconds, 5.0, &mut self.random);
        let strengths: Vec<f64> = (1..=40_u32)
            .map(|number| 1.0 / f64::from(number).powf(0.35))
            .collect();
        let mut out = voice(self.length, self.rate, &strengths, |at| {
            tone * (0.94 + 0.12 * load(at * seconds))
        });
        high_pass(&mut out, self.rate, 500.0);
        to_full_scale(&mut out);
        let mut grind = self.noise(seconds);
        band_pass(&mut grind, self.rate, 4500.0, 1.0);
        shape(&mut grind, self.rate, |time| 0.4 + 0.6 * load(time));
        add(&mut out, self.rate, 0.0, &grind, 0.7);
        out
    }

    /// Many hands, each clap a short burst around its own frequency.
    fn applause(&mut self) -> Vec<f64> {
        self.scattered(70.0, |maker| {
            let frequency = maker.between(900.0, 1900.0);
            maker.burst(0.03, frequency, 1.6, 0.006)
        })
    }

    /// A rough croak: pulses that excite two low formants.
    fn frog(&mut self) -> Vec<f64> {
        let (first, pulses) = (self.between(480.0, 620.0), self.between(38.0, 50.0));
        self.at_strikes((0.85, 1.0), |maker, unit| {
            let mut piece = vec![0.0; maker.samples(unit)];
            let pulse = ringing(
                maker.samples(0.03),
                maker.rate,
                &[(first, 1.0, 0.006), (first * 2.7, 0.5, 0.004)],
            );
            let mut at = 0.0;
            while at < unit {
                add(&mut piece, maker.rate, at, &pulse, 0.4 + 0.6 * at / unit);
                at += 1.0 / pulses;
            }
            shape(&mut piece, maker.rate, |time| hill(time, unit, 0.03));
            piece
        })
    }

    /// Two steady reeds a third apart, rich in overtones.
    fn horn(&mut self) -> Vec<f64> {
        let tone = 390.0 * self.event.pitch;
        let strengths = [0.7, 1.0, 0.9, 0.8, 0.6, 0.5, 0.35, 0.25, 0.15];
        let apart = self.between(1.2, 1.26);
        self.at_strikes((0.95, 1.0), |maker, unit| {
            let length = maker.samples(unit);
            let mut piece = voice(length, maker.rate, &strengths, |_| tone);
            let second = voice(length, maker.rate, &strengths, |_| tone * apart);
            add(&mut piece, maker.rate, 0.0, &second, 0.9);
            shape(&mut piece, maker.rate, |time| hill(time, unit, 0.02));
            piece
        })
    }

    /// Keys: a click going down, a softer one coming up, none like the other.
    fn typing(&mut self) -> Vec<f64> {
        self.at_strikes((0.4, 1.0), |maker, unit| {
            let (click, body) = (maker.between(2200.0, 4200.0), maker.between(250.0, 420.0));
            let mut piece = maker.burst(unit, click, 1.0, 0.004);
            let thud = maker.burst(unit, body, 2.0, 0.008);
            add(&mut piece, maker.rate, 0.0, &thud, 0.6);
            let release = maker.burst(0.01, click * 1.4, 1.2, 0.002);
            add(&mut piece, maker.rate, 0.7 * unit, &release, 0.4);
            piece
        })
    }

    /// A swell of noise whose brightness grows with it, then hissing back.
    fn waves(&mut self) -> Vec<f64> {
        let seconds = self.seconds();
        let period = self.between(1.0, 1.6).min(seconds);
        let phase = self.between(0.0, 0.3);
        let mut body = self.noise(seconds);
        let mut foam = body.clone();
        low_pass(&mut body, self.rate, 550.0);
        band_pass(&mut foam, self.rate, 2200.0, 0.5);
        let swell = move |time: f64| {
            let turn = (time / period + phase).fract();
            if turn < 0.4 {
                (turn / 0.4).powi(2)
            } else {
                (-(turn - 0.4) * 4.0).exp()
            }
        };
        shape(&mut body, self.rate, |time| 0.08 + swell(time));
        shape(&mut foam, self.rate, |time| swell(time).powi(2));
        add(&mut body, self.rate, 0.0, &foam, 0.5);
        body
    }

    /// A voice that opens and closes: up, and down again, through a moving formant.
    fn cat(&mut self) -> Vec<f64> {
        let tone = 620.0 * self.event.pitch;
        self.at_strikes((0.85, 1.0), |maker, unit| {
            let strengths = [1.0, 0.8, 0.7, 0.35, 0.2, 0.1];
            let mut piece = voice(maker.samples(unit), maker.rate, &strengths, |at| {
                tone * (0.8 + 0.45 * (std::f64::consts::PI * at.powf(0.7)).sin())
            });
            shape(&mut piece, maker.rate, |time| hill(time, unit, 0.4 * unit));
            piece
        })
    }

    /// Pops of every size over a low rush.
    fn fire(&mut self) -> Vec<f64> {
        let mut out = self.scattered(16.0, |maker| {
            let frequency = maker.between(1500.0, 6500.0);
            let decay = maker.between(0.0008, 0.003);
            let mut piece = maker.burst(0.012, frequency, 0.7, decay);
            let size = maker.between(0.1, 1.0).powi(2);
            shape(&mut piece, maker.rate, |_| size);
            piece
        });
        let mut rush = self.noise(self.seconds());
        low_pass(&mut rush, self.rate, 180.0);
        to_full_scale(&mut rush);
        to_full_scale(&mut out);
        add(&mut out, self.rate, 0.0, &rush, 0.12);
        out
    }

    /// Blades that beat the air: low thumps, and a hum of the turbine.
    fn helicopter(&mut self) -> Vec<f64> {
        let mut out = self.at_strikes((0.85, 1.0), |maker, unit| {
            let mut piece = maker.noise(unit * 1.3);
            low_pass(&mut piece, maker.rate, 260.0);
            shape(&mut piece, maker.rate, |time| pluck(time, 0.006, 0.35 * unit));
            to_full_scale(&mut piece);
            piece
        });
        let mut hum = self.noise(self.seconds());
        band_pass(&mut hum, self.rate, 1100.0, 6.0);
        add(&mut out, self.rate, 0.0, &hum, 0.25);
        out
    }
}

#[cfg(test)]
mod tests;
