"""Frames of what nobody owns: those who come to a place and leave it."""

from ruplar.chains.word_problems.situations.frames import frame

FRAMES = (
    frame(
        "people, passengers, children, students, tourists, adults, soldiers, workers",
        "young/old, local/foreign, sitting/standing, tall/short",
        gain="{x} got on|get on, {x} boarded at the next stop|board at the next stop, {x} climbed aboard|climb aboard, {x} hopped on|hop on",
        lose="{x} got off|get off, {x} left at the next stop|leave at the next stop, {x} stepped off|step off",
        place="on the bus, on a train, on the ferry, on a boat, on the tram, on the plane, on the subway, on a ship",
    ),
    frame(
        "people, children, guests, visitors, kids, boys, girls, fans, teenagers, women, men, students, players",
        "young/old, happy/bored, early/late, invited/uninvited",
        gain="{x} came in|come in, {x} arrived|arrive, {x} joined them|join them, {x} showed up later|show up later, {x} walked in|walk in, {x} entered|enter",
        lose="{x} went home|go home, {x} left|leave, {x} left early|leave early, {x} walked out|walk out, {x} had to leave|have to leave",
        place="at the party, in the park, at a concert, in the museum, in the gym, at the beach, in a classroom, at the pool, in the library, at a wedding, in the theater, at the zoo, in the cafeteria, at a picnic, at the stadium, in the restaurant, at the playground, in the store",
    ),
    frame(
        "birds, pigeons, crows, sparrows, robins, owls, bluebirds, ravens, swallows, butterflies, bees, dragonflies, bats, finches",
        "black/white, big/small, young/old, singing/sleeping, yellow/brown",
        gain="{x} flew in|fly in, {x} landed there|land there, {x} came to join them|come to join them, {x} arrived|arrive",
        lose="{x} flew away|fly away, {x} flew off|fly off, {x} left|leave, {x} were scared away|get scared away",
        place="on the fence, in a tree, on the roof, on a wire, in the garden, in the yard, on a branch, in the meadow, near the barn",
    ),
    frame(
        "ducks, swans, fish, frogs, turtles, geese, beavers, otters, seals, penguins, dolphins, flamingos",
        "gray/white, male/female, young/old, big/little",
        gain="{x} swam over|swim over, {x} joined them|join them, {x} arrived|arrive, {x} came out of the water|come out of the water",
        lose="{x} swam away|swim away, {x} left|leave, {x} dove under|dive under, {x} disappeared|disappear",
        place="in the pond, in a lake, by the river, on the shore, in the pool at the zoo, on a rock, in the bay",
    ),
    frame(
        "cars, trucks, motorcycles, vans, bicycles, buses, taxis, jeeps, tractors",
        "red/blue, new/old, electric/diesel, parked/empty, small/large",
        gain="{x} drove in|drive in, {x} arrived|arrive, {x} pulled in|pull in, {x} were brought in|come in",
        lose="{x} drove away|drive away, {x} left|leave, {x} were towed away|get towed away, {x} pulled out|pull out",
        place="in the parking lot, in a garage, on the street, at the rest stop, at the dealership, on the lot, at the gas station",
    ),
    frame(
        "cows, horses, sheep, deer, elephants, zebras, monkeys, kangaroos, goats, foxes, squirrels, rabbits, wolves, giraffes, lions, bears",
        "brown/white, young/grown, resting/grazing, male/female, spotted/plain",
        gain="{x} came along|come along, {x} were brought in|come in, {x} wandered in|wander in, {x} joined the group|join the group",
        lose="{x} ran away|run away, {x} left|leave, {x} were led away|get led away, {x} wandered off|wander off",
        place="in the field, in a meadow, at the zoo, in the forest, on the hill, near the river, in the barn, in a clearing",
    ),
    frame(
        "members, players, scouts, campers, volunteers, dancers, singers, actors, students, employees, swimmers, musicians",
        "new/old, junior/senior, full-time/part-time, experienced/beginning",
        gain="{x} joined|join, {x} signed up|sign up, {x} were hired|get hired, {x} came back|come back, {x} transferred in|transfer in",
        lose="{x} quit|quit, {x} dropped out|drop out, {x} moved away|move away, {x} left|leave, {x} retired|retire",
        place="in the club, on the team, in the band, at the camp, in the choir, in a dance class, at the company, in the drama group, in the swimming class",
    ),
    frame(
        "boats, ships, sailboats, canoes, kayaks, yachts, fishing boats, ferries, rowboats",
        "big/small, white/blue, wooden/metal",
        gain="{x} sailed in|sail in, {x} arrived|arrive, {x} docked|dock, {x} came back|come back",
        lose="{x} sailed away|sail away, {x} left|leave, {x} went out to sea|go out to sea",
        place="in the harbor, at the dock, on the lake, in the marina, at the pier",
    ),
    frame(
        "apples, leaves, peaches, nuts, acorns, oranges, pears, pinecones, chestnuts",
        "green/red, large/small, ripe/unripe, brown/yellow",
        gain="{x} grew|grow, {x} ripened|ripen, {x} appeared|appear",
        lose="{x} fell down|fall down, {x} dropped in the wind|drop in the wind, {x} were eaten by birds|get eaten by birds, {x} blew off|blow off",
        place="on the tree, on a branch, on the old tree, on the tree in the yard",
    ),
)
