"""Sounds that sounds.py makes itself: speech by espeak-ng, and simple events by formula."""
import ctypes
import os
import random

import espeakng_loader
import numpy as np
import soundfile

RATE = 32000

SENTENCES = """Good morning everyone, and thank you for coming to the meeting today.
Please mind the gap between the train and the platform.
Could you pass me the salt, please? The soup is much too bland.
Stop! Come back here right now!
I am so tired that I could sleep for a week.
And now the weather: rain in the west, with strong winds along the coast.
Ladies and gentlemen, we will be landing in twenty minutes.
No, no, no, that is not what I said at all.
One, two, three, four, five, six, seven, eight, nine, ten.
Happy birthday to you, my dear little friend.
The old man walked slowly down the road, and his dog followed behind him.
Where did you put the keys? I have looked for them everywhere.
Wow, that is amazing! I can not believe it.
The engine is running, but the light does not go out.
Hello? Who is there? Please speak after the tone.
She opened the window and listened to the birds in the garden.
Our team scored in the last minute, and the crowd went wild.""".split("\n")
OTHER_LANGUAGES = {
    "de": "Guten Tag, wie geht es Ihnen heute? Das Wetter ist schön, und wir gehen in den Wald.",
    "fr": "Bonjour, comment allez-vous? Il fait beau aujourd’hui, et nous allons au marché.",
    "es": "Buenos días, la comida está en la mesa y los niños juegan en la calle.",
    "it": "Buongiorno, vorrei un caffè e un bicchiere di acqua, per favore.",
    "pl": "Dzień dobry, jak się pan dzisiaj czuje?",
    "ru": "Здравствуйте, сегодня хорошая погода, и мы идём гулять.",
    "zh": "你好，今天天气很好。",
    "hi": "नमस्ते, आप कैसे हैं?",
    "ar": "مرحبا، كيف حالك اليوم؟",
    "tr": "Merhaba, bugün hava çok güzel.",
    "pt": "Bom dia, vamos para a praia com os amigos.",
}
VOICES = ["", "+f1", "+f2", "+f3", "+f4", "+f5", "+m1", "+m2", "+m3", "+m4", "+m5", "+m6", "+m7", "+croak", "+whisper",
          "+whisperf", "+klatt2"]
# Constants of espeak-ng's speak_lib.h.
SYNCHRONOUS, BY_CHARACTER, UTF8 = 2, 1, 1
WORDS_A_MINUTE, PITCH, PITCH_RANGE = 1, 3, 4


def speech(target, count=260):
    """Sentences in twelve languages by voices of several speeds and pitches, more than half of them in a room."""
    if os.path.isdir(target):
        return
    os.makedirs(target)
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = library.espeak_Initialize(SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), 0)
    parts = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    def take(samples, number, _):
        if samples and number:
            parts.append(np.ctypeslib.as_array(samples, (number,)).copy())
        return 0

    library.espeak_SetSynthCallback(take)
    rng = random.Random(3)
    for i in range(count):
        language = rng.choice(["en", "en-us", "en-gb-scotland"] * 4 + list(OTHER_LANGUAGES))
        text = OTHER_LANGUAGES.get(language) or " ".join(rng.sample(SENTENCES, rng.choice([1, 1, 2, 3])))
        parts.clear()
        if library.espeak_SetVoiceByName((language + rng.choice(VOICES)).encode()) != 0:
            library.espeak_SetVoiceByName(language.encode())
        library.espeak_SetParameter(WORDS_A_MINUTE, rng.randint(110, 230), 0)
        library.espeak_SetParameter(PITCH, rng.choice([20, 40, 50, 60, 75, 99]), 0)
        library.espeak_SetParameter(PITCH_RANGE, rng.randint(20, 90), 0)
        data = text.encode()
        library.espeak_Synth(data, ctypes.c_size_t(len(data) + 1), 0, BY_CHARACTER, 0, UTF8, None, None)
        if parts:
            voice = np.concatenate(parts) / 32768
            if rng.random() < 0.6:
                voice = room(voice, rate, rng)
            path = os.path.join(target, f"{i:03d}-{language}.wav")
            soundfile.write(path, voice / (np.abs(voice).max() + 1e-9) * 0.7, rate)


def room(x, rate, rng):
    """Adds reverberation: noise that decays exponentially after the direct sound."""
    seconds = rng.uniform(0.1, 1.2)
    t = np.arange(int(rate * seconds)) / rate
    tail = np.random.RandomState(rng.randint(0, 1 << 30)).randn(t.size) * np.exp(-6.9 * t / seconds)
    tail *= rng.uniform(0.02, 0.15) / np.sqrt(np.mean(tail ** 2) * t.size / 50)
    tail[0] = 1
    n = 1 << int(np.ceil(np.log2(x.size + tail.size)))
    return np.fft.irfft(np.fft.rfft(x, n) * np.fft.rfft(tail, n), n)[:x.size + tail.size]


class Event:
    """One sound of 2 to 8 seconds; everything in it follows from its number."""

    def __init__(self, number):
        self.rng, self.noise = random.Random(number), np.random.RandomState(number)
        self.n = int(RATE * self.rng.uniform(2, 8))
        self.t = np.arange(self.n) / RATE

    def shaped_noise(self, slope, low=20, high=16000):
        frequencies = np.fft.rfftfreq(self.n, 1 / RATE)
        gain = np.where((frequencies >= low) & (frequencies <= high), np.maximum(frequencies, 20.0) ** (-slope), 0)
        x = np.fft.irfft(np.fft.rfft(self.noise.randn(self.n)) * gain, self.n)
        return x / np.abs(x).max()

    def swell(self, cycles, depth):
        """A random level between 1 - depth and 1 that turns so many times a second."""
        knots = self.noise.rand(int(cycles * self.n / RATE) + 3)
        return 1 - depth + depth * np.interp(self.t * cycles, np.arange(knots.size), knots)

    def phase(self, frequency):
        return 2 * np.pi * np.cumsum(frequency * np.ones(self.n)) / RATE

    def repeated(self, pause, strike):
        x, at = np.zeros(self.n), 0.1
        while at < self.n / RATE:
            one = strike()
            start = int(at * RATE)
            length = min(one.size, self.n - start)
            x[start:start + length] += one[:length] * self.rng.uniform(0.4, 1)
            at += pause()
        return x

    def wind(self):
        rng = self.rng
        return self.shaped_noise(rng.uniform(0.6, 1.3), 30, rng.uniform(400, 3000)) * self.swell(0.7, 0.9)

    def rain(self):
        background = self.shaped_noise(self.rng.uniform(-0.1, 0.4), 200) * 0.5
        fall = np.exp(-np.arange(200) / 30) * 0.4
        return background + self.repeated(lambda: self.rng.expovariate(60), lambda: self.noise.randn(200) * fall)

    def siren(self):
        rng = self.rng
        low, high, speed = rng.uniform(400, 700), rng.uniform(900, 1600), rng.uniform(0.2, 4)
        turn = np.sin(2 * np.pi * speed * self.t)
        wave = turn if rng.random() < 0.6 else np.sign(turn)
        return np.tanh(rng.uniform(1, 4) * np.sin(self.phase(low + (high - low) * (wave + 1) / 2)))

    def beeps(self):
        rng = self.rng
        frequency, period, share = rng.uniform(600, 3500), rng.uniform(0.1, 1.2), rng.uniform(0.3, 0.7)
        return np.tanh(2 * np.sin(self.phase(frequency))) * ((self.t % period) < period * share)

    def bell(self):
        rng = self.rng
        frequency = rng.uniform(150, 2500)
        partials = rng.choice([[0.5, 1, 1.2, 1.5, 2, 2.7, 3.6], [1, 2.76, 5.4, 8.9], [1, 2, 3, 4.1, 5.3]])
        length = rng.uniform(0.3, 3)
        t = np.arange(int(length * RATE)) / RATE
        one = sum(np.sin(2 * np.pi * frequency * ratio * t) * np.exp(-t * (3 + ratio) / length) / (1 + i)
                  for i, ratio in enumerate(partials))
        pause = rng.uniform(0.3, 2.5)
        return self.repeated(lambda: pause, lambda: one)

    def engine(self):
        rng, noise = self.rng, self.noise
        speed = rng.uniform(15, 140) * self.swell(0.5, rng.choice([0.05, 0.5]))
        x = (np.sin(self.phase(speed)) > 0.9) * (0.6 + 0.4 * noise.rand(self.n)) + 0.05 * noise.randn(self.n)
        resonance = np.exp(-np.arange(800) / rng.uniform(60, 250)) * np.sin(np.arange(800) * rng.uniform(0.02, 0.2))
        return np.convolve(x, resonance, "same")

    def birds(self):
        rng = self.rng

        def chirp():
            n = int(RATE * rng.uniform(0.03, 0.25))
            frequency = np.linspace(rng.uniform(2000, 6500), rng.uniform(2000, 6500), n)
            frequency = frequency + rng.choice([0, 300]) * np.sin(2 * np.pi * 30 * np.arange(n) / RATE)
            return np.sin(2 * np.pi * np.cumsum(frequency) / RATE) * np.hanning(n)
        return self.repeated(lambda: rng.choice([0.08, 0.15, 0.3, 0.9]), chirp)

    def crickets(self):
        rng = self.rng
        frequency, pulses = rng.uniform(2800, 7000), rng.uniform(20, 60)
        pulse = np.maximum(0, np.sin(2 * np.pi * pulses * self.t)) ** 2
        gate = np.sin(2 * np.pi * rng.uniform(1, 4) * self.t) > -0.2
        return np.sin(self.phase(frequency)) * pulse * gate + 0.02 * self.noise.randn(self.n)

    def knocks(self):
        rng = self.rng
        decay, frequency, pause = rng.uniform(20, 600), rng.uniform(120, 4000), rng.choice([0.15, 0.25, 0.5, 1.0])
        t = np.arange(4000)
        tone, fall = np.sin(2 * np.pi * frequency * t / RATE), np.exp(-t / decay)
        return self.repeated(lambda: pause, lambda: (self.noise.randn(4000) * 0.5 + tone) * fall)

    def hum(self):
        rng = self.rng
        frequency = rng.choice([50, 60, 100, 120, rng.uniform(80, 400)])
        drive = rng.uniform(1, 8)
        tone = np.sin(self.phase(frequency * (1 + 0.02 * (self.swell(3, 1) - 0.5))))
        return np.tanh(drive * tone) + rng.uniform(0, 0.1) * self.noise.randn(self.n)

    def whistle(self):
        frequency = self.rng.uniform(500, 3000) * (1 + 0.3 * (self.swell(1.2, 1) - 0.5))
        tone = np.sin(self.phase(frequency * (1 + 0.01 * np.sin(2 * np.pi * 6 * self.t))))
        return tone * self.swell(1.5, 0.9) + 0.05 * self.shaped_noise(0)

    def machine(self):
        rng = self.rng
        x = self.shaped_noise(rng.uniform(-0.3, 0.8), rng.uniform(20, 200), rng.uniform(3000, 16000))
        return x + rng.choice([0, 0.2]) * np.sin(self.phase(rng.uniform(80, 900)))

    def blasts(self):
        rng = self.rng
        length, cut = rng.uniform(0.05, 2), rng.uniform(3, 80)

        def blast():
            n = int(RATE * length)
            x = np.convolve(self.noise.randn(n), np.exp(-np.arange(300) / cut), "same")
            return (x / np.abs(x).max())[:n] * np.exp(-4 * np.arange(n) / n)
        return self.repeated(lambda: rng.uniform(0.2, 3), blast)

    def waves(self):
        x = self.shaped_noise(self.rng.uniform(0.2, 0.8), 60)
        return x * (0.1 + np.abs(np.sin(np.pi * self.t * self.rng.uniform(0.1, 0.3)))) ** 2


KINDS = (Event.wind, Event.rain, Event.siren, Event.beeps, Event.bell, Event.engine, Event.birds, Event.crickets,
         Event.knocks, Event.hum, Event.whistle, Event.machine, Event.blasts, Event.waves)


def events(target, count=420):
    """As many sounds of each kind, some in a room."""
    if os.path.isdir(target):
        return
    os.makedirs(target)
    for i in range(count):
        event = Event(i)
        kind = KINDS[i % len(KINDS)]
        x = np.nan_to_num(kind(event))
        if event.rng.random() < 0.3:
            x = room(x, RATE, event.rng)[:event.n]
        level = event.rng.uniform(0.1, 0.9)
        path = os.path.join(target, f"{i:03d}-{kind.__name__}.flac")
        soundfile.write(path, x / (np.abs(x).max() + 1e-9) * level, RATE)
